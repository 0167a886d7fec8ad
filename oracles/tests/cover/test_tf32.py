"""TF32, which no tensor has: factors are rounded to it, where a contract says so, in one of three ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from oracles.dtypes import CUTS, point_form
from oracles.formula.contract import Contract
from oracles.neighbours import neighbours
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.rounding import round_precise, round_to
from oracles.simulated.simulation import simulate
from oracles.summation import AnyOrder, Blocks, NumericsError, Sequential
from oracles.tests.common.judged import results
from oracles.tests.common.tiers import disagreements

Bits = NDArray[np.uint32]
ADDED: Mapping[str, Callable[[Bits], Any]] = {
    "tf32": lambda bits: np.uint32(0x1000),
    "tf32 to even": lambda bits: np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1)),
    "tf32 towards zero": lambda bits: np.uint32(0),
}
"""What is added to the bits of an f32 before the last 13 are dropped."""


def cut(values: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    bits = values.view(np.uint32)
    kept = (bits + ADDED[name](bits)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), kept.view(np.float32), values)


def floats() -> NDArray[np.float32]:
    """Any of f32, ties, numbers next to them, and what a carry makes infinite."""
    random = np.random.default_rng(1)
    near = np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF], np.uint32)
    bits = random.integers(0, 2**19, 3000, dtype=np.uint32) << np.uint32(13) | random.choice(near, 3000)
    ends = np.array([0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0x80000000, 0x00000FFF, 0x00001000, 0x80001000], np.uint32)
    values = np.concatenate([random.integers(0, 2**32, 3000, dtype=np.uint32), bits, ends]).view(np.float32)
    return values[~np.isnan(values)]


@pytest.mark.parametrize("name", CUTS)
def test_both_tiers_round_as_the_bits_say(name: str) -> None:
    values, form = floats(), point_form(name)
    wanted = cut(values, name).astype(np.float64)
    found = round_to(values.astype(np.float64), form)
    assert np.array_equal(found, wanted)
    assert np.array_equal(np.signbit(found), np.signbit(wanted))
    assert [round_precise(mpmath.mpf(float(value)), form) for value in values[:500]] == [*wanted[:500]]
    normal = np.isfinite(wanted) & (np.abs(wanted) >= form.tiny)
    wanted, exact = wanted[normal], values[normal].astype(np.float64)
    assert (np.abs(wanted - exact) <= form.u * np.abs(exact)).all()


def _problem(seed: int) -> Problem:
    random = np.random.default_rng(seed)
    a, b = (random.normal(size=shape).astype(np.float32) for shape in ((3, 9), (9, 5)))
    a[0, 0], b[0, 0] = 2049.0, 4098.0  # ties
    return Problem("matmul", {"relu": 0.0}, {"a": a, "b": b}, {"c": "f32"}, structured=True)


def _product(of: Problem, name: str) -> Mapping[str, NDArray[np.float32]]:
    factors = (cut(of.inputs[each], name) if name else of.inputs[each] for each in "ab")
    c = np.zeros((3, 5), np.float32)
    for left, right in zip(next(factors).T, next(factors), strict=True):
        c += np.outer(left, right)
    return {"c": c}


@pytest.mark.some(1)
@pytest.mark.parametrize("name", CUTS)
def test_who_rounds_as_declared_passes_and_nobody_else(name: str) -> None:
    of = _problem(1)
    strict, open_ = (Contract(points=dict.fromkeys("ab", each)) for each in (name, "maybe tf32 towards zero"))
    for other in ("", *CUTS):
        found = _product(of, other)
        assert results(of, strict, found) == ["pass" if other == name else "numeric"], other
        assert results(of, open_, found) == ["pass"], other
        assert results(of, open_, {"c": found["c"] * np.float32(1.01)}) == ["numeric"], other
    assert results(of, Contract(), _product(of, name)) == ["numeric"]


@pytest.mark.parametrize("name", [*CUTS, "maybe tf32"])
def test_both_tiers_say_the_same(name: str) -> None:
    contract = Contract(points=dict.fromkeys("ab", name))
    compared, unsure, wrong = disagreements(_problem(2), contract, np.random.default_rng(3))
    assert not wrong
    assert 4 * unsure < compared > 100


@pytest.mark.some(2)
@pytest.mark.parametrize("name", [*CUTS, "maybe tf32", "maybe tf32 towards zero"])
def test_simulated_kernels_pass(name: str) -> None:
    for seed in range(8):
        for order in (Sequential(), Blocks(8, truncates=True), AnyOrder()):
            contract = Contract(points=dict.fromkeys("ab", name), sums={"k": order})
            of = _problem(seed)
            assert results(of, contract, simulate(of, contract, np.random.default_rng(seed))) == ["pass"], (seed, order)


def test_what_is_no_factor_is_not_of_it() -> None:
    for wrong in (Contract, lambda **said: Contract(dtypes={"c": said["compute"]})):
        with pytest.raises(NumericsError, match="tf32 is what points round to"):
            wrong(compute="tf32")


def test_a_kernel_that_means_f32_is_told_what_it_is_right_as() -> None:
    near = {each.text for each in neighbours(OPS["matmul"], Contract())}
    assert {f"points={{'a': '{name}', 'b': '{name}'}}" for name in CUTS} <= near
