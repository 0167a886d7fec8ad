"""Matrix units bit by bit, against integers of any length, and the contracts that say what they add like."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles import AnyOrder, Blocks, Contract, Pairwise, Summation
from oracles.dtypes import point_form
from oracles.formula.contract import Denormals
from oracles.matrix_units import UNITS, MatrixUnit, unit
from oracles.problem import Problem
from oracles.rounding import round_to, stored_as
from oracles.summation import NumericsError
from oracles.tests.common.judged import results, simulated

F64 = NDArray[np.float64]
MODELLED = [(each, dtype) for each in UNITS if each.adds for dtype in each.dtypes]
CUTTING = [(each, dtype) for each, dtype in MODELLED if each.adds == "cut"]
LENGTH = 4096


def name(value: Any) -> str:
    return value.accelerators[0] if isinstance(value, MatrixUnit) else str(value)


def numbers(shape: tuple[int, ...], dtype: str, seed: int, *, low: int = -5, high: int = 5) -> F64:
    """Numbers of a dtype of either sign with exponents from `low` to `high`, one in eight of them zero."""
    random = np.random.default_rng(seed)
    sizes = random.uniform(1, 2, shape) * 2.0 ** random.integers(low, high + 1, shape)
    signed = sizes * random.choice([-1.0, 1.0], shape) * (random.random(shape) > 0.125)
    return round_to(signed, point_form(dtype))


def exponent(value: float, least: int) -> int:
    return max(math.frexp(value)[1] - 1, least)


def one_at_a_time(of: MatrixUnit, a: F64, b: F64, start: float, dtype: str) -> float:
    """What an instruction that cuts returns, in integers and fractions."""
    least, pairs = point_form(dtype).emin, [(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True) if x and y]
    terms = [(exponent(x, least) + exponent(y, least), Fraction(x) * Fraction(y)) for x, y in pairs]
    terms += [(exponent(start, -126), Fraction(start))] if start else []
    if not terms:
        return 0.0
    last = max(max(top for top, _ in terms), of.lowest) - 23 - of.order.extra
    total = sum(int(value / Fraction(2) ** last) for _, value in terms)  # `int` cuts towards zero
    if not total:
        return 0.0
    drop = max(total.bit_length() - 24 - min(of.order.extra, 0), -149 - min(of.order.extra, 0) - last, 0)
    kept = abs(total) >> drop << drop
    return math.copysign(float(kept * Fraction(2) ** last), total)


@pytest.mark.some(2)
@pytest.mark.parametrize(("of", "dtype"), CUTTING, ids=name)
def test_an_instruction_returns_what_integers_of_any_length_give(of: MatrixUnit, dtype: str) -> None:
    tiny = point_form(dtype).least
    for seed, (low, high) in enumerate(((-1, 0), (-6, 5), (-14, 7), (tiny, tiny + 12))):
        a, b = (numbers((200, of.order.block), dtype, 2 * seed + place, low=low, high=high) for place in (0, 1))
        for scale in (0.0, 1.0, 2.0**-20, 2.0 ** min(2 * high, 100), 2.0**-140):
            start = round_to(numbers((200,), "f32", 99) * scale, point_form("f32"))
            found = of.added(a, b, start, dtype)
            want = [one_at_a_time(of, *each, dtype) for each in zip(a, b, start.tolist(), strict=True)]
            np.testing.assert_array_equal(found, want)


def test_the_last_bits_are_where_each_accelerator_has_them() -> None:
    """One, plus a product that is 2^-bits: the largest number of bits that the unit still adds."""
    found = dict[tuple[str, str], int]()
    for of, dtype in CUTTING:
        one, ways = np.ones((1, 2)), range(10, 14) if min(of.order.extra, 0) else range(20, 30)
        for bits in ways:
            a, b = np.array([[2.0**-6, -1.0]]), np.array([[2.0 ** (6 - bits), 1.0]])
            kept = -of.added(a, b, np.zeros(1), "bf16")[0] != 1.0
            found[of.accelerators[0], dtype] = bits if kept else found.get((of.accelerators[0], dtype), 0)
        assert of.added(one, one, np.zeros(1), dtype)[0] == 2.0
    assert found["V100", "f16"] == 23
    assert found["A100", "bf16"] == found["A100", "tf32"] == 24
    assert found["H100", "f16"] == found["H100", "tf32"] == found["B200", "e4m3fn"] == 25
    assert found["H100", "e4m3fn"] == found["L40S", "e5m2"] == 13


def test_units_of_nvidia_cut_where_those_of_amd_round() -> None:
    a, b = np.array([[1.0, 2.0**-12, 2.0**-12, 2.0**-12]]), np.array([[1.0, 2.0**-12, 2.0**-12, 2.0**-12]])
    assert unit("V100", "f16").added(a, b, np.zeros(1), "f16")[0] == 1.0
    assert unit("A100", "f16").added(a, b, np.zeros(1), "f16")[0] == 1.0 + 2.0**-23  # 3 2^-24, cut to 2^-23
    assert unit("MI250", "f16").added(a, b, np.zeros(1), "f16")[0] == 1.0 + 2.0**-23  # a pair, then to even
    low = np.full((1, 4), 2.0**-70)
    assert unit("MI250", "bf16").added(low, low, np.zeros(1), "bf16")[0] == 0.0
    assert unit("MI100", "f16").added(low, low, np.zeros(1), "f16")[0] == 2.0**-138


def test_nan_and_infinities_are_those_of_any_order() -> None:
    of, a = unit("H100", "bf16"), np.ones((4, 16))
    b = a.copy()
    b[0, 3], b[1, 3], b[2, 3:5], a[3, 5], b[3, 5] = np.nan, np.inf, (np.inf, -np.inf), 0.0, np.inf
    found = of.added(a, b, np.zeros(4), "bf16")
    assert np.isnan(found[[0, 2, 3]]).all()
    assert found[1] == np.inf
    assert of.added(np.full((1, 2), 2.0**127), np.ones((1, 2)), np.zeros(1), "bf16")[0] == np.inf


def test_accelerators_are_found_by_dtype() -> None:
    assert unit("H200", "e5m2").order == Blocks(32, truncates=True, extra=-10)
    with pytest.raises(KeyError, match="V100 for bf16"):
        unit("V100", "bf16")
    with pytest.raises(NumericsError, match="extra bits"):
        Blocks(8, extra=1)


def product(a: F64, b: F64, dtype: str) -> Problem:
    """A product of matrices of a dtype, f32 where it is TF32."""
    kept = stored_as("f32" if dtype == "tf32" else dtype)
    inputs = {"a": a.astype(kept), "b": b.astype(kept)}
    return Problem("matmul", {"relu": 0.0, "axis": 1}, inputs, {"c": "f32"}, structured=True)


def verdict(of: Problem, order: Summation, got: F64) -> str:
    (found,) = results(of, Contract(sums={"k": order}), {"c": got.astype(np.float32)})
    return str(found)


def losing(of: MatrixUnit, dtype: str, n: int = LENGTH) -> tuple[F64, F64]:
    """A large product, then many that are lost: a few of each block that are cut to one unit, so few that their sum is
    cut off too, and others that are smaller than one."""
    high, widest = (6, 1.75) if point_form(dtype).itemsize == 1 else (0, 2 - 2.0**-7)
    unit, few = -(23 + of.order.extra), (1 << max(of.order.extra, 0)) - 1
    a, b = np.full((2, n), widest * 2.0 ** (high + unit // 2 - 1)), np.full((n, 2), 2.0 ** (high + unit - unit // 2))
    a[:, np.arange(n) % of.order.block < few] *= 2
    a[:, 0], b[0, :] = 2.0**high, 2.0**high
    return a, b


@pytest.mark.some(8)
@pytest.mark.parametrize(("of", "dtype"), MODELLED, ids=name)
def test_all_that_a_unit_returns_is_right_by_its_order(of: MatrixUnit, dtype: str) -> None:
    """At random, of one sign, and where every term after the first is lost."""
    tiny = point_form(dtype).least
    given: Mapping[str, tuple[F64, F64]] = {
        "random": (numbers((3, 300), dtype, 1), numbers((300, 3), dtype, 2)),
        "positive": (np.abs(numbers((2, LENGTH), dtype, 3)), np.abs(numbers((LENGTH, 2), dtype, 4))),
        "single": (numbers((4, 1), dtype, 5), numbers((1, 4), dtype, 6)),
        "subnormal": (numbers((3, 70), dtype, 7, low=tiny, high=tiny + 9), numbers((70, 3), dtype, 8, low=-3)),
        "lost": losing(of, dtype),
    }
    flushes: Denormals = "flush" if "flushed" in of.adds else "preserve"
    for kind, (a, b) in given.items():
        contract = Contract(sums={"k": of.order}, denormals=flushes, zeros="any")
        got = of.product(a, b, dtype).astype(np.float32)
        assert results(product(a, b, dtype), contract, {"c": got}) == ["pass"], kind


@pytest.mark.some(6)
@pytest.mark.parametrize(("of", "dtype"), CUTTING, ids=name)
def test_an_order_with_one_bit_more_is_too_narrow(of: MatrixUnit, dtype: str) -> None:
    a, b = losing(of, dtype, 1024)
    got = of.product(a, b, dtype)
    assert verdict(product(a, b, dtype), of.order, got) == "pass"
    assert verdict(product(a, b, dtype), replace(of.order, extra=of.order.extra + 1), got) != "pass"


def test_fp8_without_promotion_is_right_as_that_and_wrong_as_f32() -> None:
    of, dtype = unit("H100", "e4m3fn"), "e4m3fn"
    a, b = np.abs(numbers((4, 2048), dtype, 1)), np.abs(numbers((2048, 4), dtype, 2))
    got, exact = of.product(a, b, dtype), round_to(a @ b, point_form("f32"))
    assert np.max(np.abs(got - exact) / exact) > 2.0**-10
    assert verdict(product(a, b, dtype), of.order, got) == "pass"
    for order in (AnyOrder(), Blocks(32, truncates=True), unit("B200", dtype).order):
        assert verdict(product(a, b, dtype), order, got) != "pass"
        assert verdict(product(a, b, dtype), order, exact) == "pass"
    assert verdict(product(a, b, dtype), of.order, exact / 2) != "pass"


@pytest.mark.parametrize(("of", "dtype"), CUTTING, ids=name)
def test_the_bits_tell_units_apart_that_a_bound_allows(of: MatrixUnit, dtype: str) -> None:
    """An accumulator that cuts elsewhere, takes other blocks or rounds to nearest differs in some bits, and is right by
    the order all the same: only the model has a tolerance of zero."""
    a, b = numbers((16, 128), dtype, 1, low=-8, high=7), numbers((128, 16), dtype, 2, low=-8, high=7)
    said = of.product(a, b, dtype)
    block, extra = of.order.block, of.order.extra
    others = [Blocks(block, True, extra + 1), Blocks(block // 2, True, extra), Blocks(2 * block, True, extra)]
    got = [replace(of, order=order).product(a, b, dtype) for order in others]
    got.append(replace(of, adds="pairs").product(a, b, dtype))
    for each in got:
        assert not np.array_equal(each, said)
        assert verdict(product(a, b, dtype), of.order, each) == "pass"


@pytest.mark.some(3)
@pytest.mark.parametrize("k", [1, 700])
@pytest.mark.parametrize("order", [Blocks(4, True), Blocks(16, True, 2), Blocks(32, True, -10)])
def test_simulated_kernels_that_truncate_are_right_by_their_order(order: Blocks, k: int) -> None:
    a, b = (np.abs(numbers(shape, "f16", seed)) for seed, shape in enumerate(((3, k), (k, 3))))
    of, contract = product(a, b, "f16"), Contract(sums={"k": order})
    for seed in range(4):
        assert results(of, contract, simulated(of, contract, seed)) == ["pass"]
    found = simulated(of, contract, 0)["c"].astype(np.float64)
    assert (found <= a @ b).all(), "bits are cut off, not rounded"
    assert k == 1 or verdict(of, AnyOrder() if order.extra < 0 else Pairwise(), found) != "pass"


@pytest.mark.parametrize("n", [1, 700])
def test_sums_of_few_bits_are_right_by_that_alone(n: int) -> None:
    """Sums of one term are cut off too, and so are those of whole numbers."""
    x = np.random.default_rng(1).integers(2**17, 2**18, (4, n)).astype(np.float32)
    of = Problem("row_sum", {"axis": 1}, {"x": x}, {"y": "f32"}, structured=False)
    short, plain = Contract(sums={"n": Blocks(32, True, -10)}), Contract(sums={"n": AnyOrder()})
    for seed in range(4):
        assert results(of, short, simulated(of, short, seed)) == ["pass"]
    assert results(of, plain, simulated(of, short, 0)) != ["pass"]
