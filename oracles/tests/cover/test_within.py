"""Errors of functions that grow with their argument, and functions that flush: 2^(x log2 e) on a GPU, and what it is
not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from oracles import AnyOrder, Contract, NumericsError, Steps, Within
from oracles.problem import Problem
from oracles.simulated.simulation import simulate
from oracles.tests.common.elementary import FUNCTIONS
from oracles.tests.common.functions import OPS, problems
from oracles.tests.common.judged import known, results
from oracles.truth import Truth

F32 = NDArray[np.float32]
U = 2.0**-24
LOG2E = np.float32(1.4426950408889634)
GPU = Within(2.5, growth=0.62)
EXP = Contract(accuracy={"exp": GPU}, nonfinite="overflow")


@pytest.fixture(autouse=True)
def _ops() -> Iterator[None]:
    with known(*OPS.values()):
        yield


def of_gpu(x: F32, constant: np.float32 = LOG2E, rounds: Callable[[F32], F32] = lambda product: product) -> F32:
    """2^(x log2 e) as a GPU has it: both are rounded, and the power is as good as can be."""
    with np.errstate(all="ignore"):
        return np.asarray(np.exp2(rounds(x * constant).astype(np.float64)).astype(np.float32))


def in_bf16(product: F32) -> F32:
    """Products cut to the 8 bits of bf16."""
    return (product.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def arguments(count: int = 4096) -> F32:
    random = np.random.default_rng(0)
    sizes = np.exp2(random.uniform(-20, np.log2(87), count))
    return np.asarray(np.concatenate([-sizes, sizes, -random.uniform(87, 104, count // 8)]).astype(np.float32))


def failing(x: F32, y: F32, contract: Contract = EXP) -> int:
    of = Problem(OPS["exp"].name, {}, {"x": x[None], "g": np.ones_like(x)[None]}, {"y": "f32"}, structured=True)
    (check,) = Truth(of).check(contract, {"y": y[None]})
    return check.failing


def test_the_error_of_a_power_of_two_is_as_derived() -> None:
    """The factor e^(1.224 u |x|), which some arguments come close to: measured in 120 bits."""
    x = arguments()[:8192]
    products = (x * LOG2E).astype(np.float64)
    off = np.abs(products / np.float64(1.4426950408889634) - x) / np.abs(x) / (2 * U)
    assert 0.58 < off.max() < 0.612 * (1 + 1e-6)
    with mpmath.workprec(120):
        for place in np.argsort(off)[-20:]:
            exact = mpmath.log(2) * mpmath.mpf(products[place]) - mpmath.mpf(float(x[place]))
            assert abs(exact) <= 0.612 * 2 * U * abs(float(x[place]))
            assert float(abs(exact) / abs(float(x[place])) / (2 * U)) == pytest.approx(off[place], rel=1e-6)


def test_a_power_of_two_is_right_and_one_of_another_product_or_constant_is_wrong() -> None:
    x = arguments()
    assert failing(x, of_gpu(x)) == 0
    two_off = np.nextafter(np.nextafter(of_gpu(x), np.float32(np.inf)), np.float32(np.inf))
    assert failing(x, two_off) == 0
    assert failing(x, of_gpu(x), Contract()) > len(x) // 16
    assert failing(x, of_gpu(x, rounds=in_bf16)) > len(x) // 2
    for last in (1.442696, 1.44269, 1.4427):
        assert failing(x, of_gpu(x, np.float32(last))) > len(x) // 8, last


def test_near_zero_no_more_is_allowed_than_the_instruction_errs_by() -> None:
    """48 ulp everywhere hid an error of 20 at e^-0.5."""
    x = np.linspace(-0.6, -0.4, 64).astype(np.float32)
    off = (of_gpu(x) * (1 + 20 * 2 * U)).astype(np.float32)
    assert failing(x, off, Contract(accuracy={"exp": 48.0})) == 0
    assert failing(x, off) == len(x)


@pytest.mark.parametrize("online", [False, True])
def test_a_softmax_by_powers_of_two_is_right_as_plain_sums_and_as_one_that_is_scaled_again(online: bool) -> None:
    random = np.random.default_rng(1)
    x = np.sort(random.uniform(-100, 0, (4, 96)).astype(np.float32))
    contract = Contract(sums={"n": AnyOrder()}, accuracy={"exp": GPU})
    if online:
        contract = replace(contract, algorithm={"mass": "online"}, sums={"n": Steps(16)})
    for rounds, passes in ((lambda product: product, True), (in_bf16, False)):
        top = x.max(axis=1, keepdims=True)
        if online:
            most, mass = np.full((4, 1), -np.inf, np.float32), np.zeros((4, 1), np.float32)
            for start in range(0, 96, 16):
                block = x[:, start : start + 16]
                more = np.maximum(most, block.max(axis=1, keepdims=True))
                mass = mass * of_gpu(most - more, rounds=rounds)
                mass = mass + of_gpu(block - more, rounds=rounds).sum(axis=1, keepdims=True, dtype=np.float32)
                most = more
        else:
            mass = of_gpu(x - top, rounds=rounds).sum(axis=1, keepdims=True, dtype=np.float32)
        y = of_gpu(x - top, rounds=rounds) / mass
        (check,) = Truth(Problem("softmax", {"axis": 1}, {"x": x}, {"y": "f32"})).check(contract, {"y": y})
        assert (check.failing == 0) == passes


@pytest.mark.some(1)
@pytest.mark.parametrize("name", [name for name, of in FUNCTIONS.items() if not of.is_exact])
def test_no_kernel_that_errs_by_as_much_is_accused(name: str) -> None:
    of_power = FUNCTIONS[name].power is not None
    bound = Within(FUNCTIONS[name].loose, 0.0 if of_power else 3.0, flushes=True)
    for place, plain in enumerate((Contract("input"), Contract("f32", zeros="any"))):
        contract = replace(plain, accuracy={FUNCTIONS[name].name: bound})
        for dtype in ("f32", "bf16"):
            for of in problems(name, dtype, 1, place):
                got = simulate(of, contract, np.random.default_rng(place))
                assert results(of, contract, got) == ["pass"] * 3, (dtype, contract)


def test_a_reciprocal_root_may_flush_what_is_subnormal_where_that_is_said() -> None:
    x, small = np.array([[1.0, 2.0]], np.float32), np.array([[2.0**-130, 2.0**-140]], np.float32)

    def of(values: F32, y: Any, bound: float | Within) -> int:
        given = {"x": values, "g": np.ones_like(values)}
        (check,) = Truth(Problem(OPS["rsqrt"].name, {}, given, {"y": "f32"})).check(
            Contract(accuracy={"rsqrt": bound}), {"y": np.asarray(y, np.float32)}
        )
        return check.failing

    infinite = np.full((1, 2), np.inf)
    right = (1 / np.sqrt(small.astype(np.float64))).astype(np.float32)
    assert of(small, infinite, Within(2.0, flushes=True)) == of(small, right, Within(2.0, flushes=True)) == 0
    assert of(small, infinite, 2.0) == of(x, infinite, Within(2.0, flushes=True)) == 2


def test_a_division_may_flush_where_that_is_said_and_no_other_operation_does() -> None:
    x = np.full((1, 4), 1e-39, np.float32)
    for contract, fails in ((Contract(), 4), (Contract(accuracy={"divide": Within(2.5, flushes=True)}), 0)):
        of = Problem("row_mean", {"axis": 1}, {"x": x}, {"y": "f32"})
        (check,) = Truth(of).check(contract, {"y": np.zeros((1,), np.float32)})
        assert check.failing == bool(fails)


def test_a_bound_that_makes_no_sense_is_refused() -> None:
    for name, bound, words in (
        ("exp", Within(2.0, growth=-1.0), "a growth of -1.0 ulp: it must be at least 0, and sensible"),
        ("exp", Within(0.2), "within 0.2 ulp: it must be at least 0.5"),
        ("rsqrt", Within(2.0, growth=1.0), "its errors are in proportion to it"),
        ("divide", Within(2.0, growth=1.0), "its errors are in proportion to it"),
    ):
        with pytest.raises(NumericsError, match=words):
            Contract(accuracy={name: bound})


def test_a_bound_is_said_in_a_few_words() -> None:
    assert str(GPU) == "2.5 + 0.62 |x| ulp"
    assert str(Within(1.5, flushes=True)) == "1.5 ulp, subnormals flushed"
    for bound in (GPU, Within(1.5, flushes=True), Within(2.0)):
        assert eval(repr(bound), {"Within": Within}) == bound
    assert repr(Within(2.5)) == "Within(2.5)"
