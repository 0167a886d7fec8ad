"""Roundings of both tiers against each other and against ml_dtypes; double-double arithmetic against mpmath."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.doubledouble import LOST, ULP, DoubleDouble, absolute, plus, root, sticky, two_sum
from oracles.dtypes import FORMATS, DtypeError, Format, form
from oracles.rounding import STORAGE, add_rounded, bits, half_gap, half_gap_of, round_precise, round_to, stored

NARROW = [name for name in FORMATS if name != "f64"]


def interesting(target: Format, seed: int) -> np.ndarray:
    """Values over the whole range of a format, ties between neighbours, and values next to ties."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(target.emin - target.precision - 3, np.log2(target.max) + 1, 3000)
    values = rng.standard_normal(3000) * 2.0**spread
    near = round_to(values, target)
    near = near[np.isfinite(near)]
    ties = near + half_gap(near, target, np.ones(near.shape, bool))
    return np.concatenate([values, near, ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), [0.0, -0.0]])


FRACTION = Format("e3m4", "float8_e3m4", 1, 5, -2, 15.5)
"""A format whose largest number is no integer, which no row has."""


@pytest.mark.parametrize("target", [*map(form, NARROW), FRACTION], ids=lambda target: target.name)
def test_both_tiers_round_alike(target: Format) -> None:
    values = interesting(target, 1)
    fast = round_to(values, target)
    precise = np.array([round_precise(mpmath.mpf(float(v)), target) for v in values])
    assert np.array_equal(fast, precise)


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_far_beyond_any_format_are_rounded_at_once(name: str) -> None:
    """What exponentials of the largest numbers are: 2^(10^300) fits into no memory."""
    huge = mpmath.ldexp(3, 10**300)
    assert round_precise(huge, form(name)) == math.inf
    assert round_precise(-huge, form(name)) == -math.inf
    assert str(round_precise(1 / huge, form(name))) == "0.0"
    assert str(round_precise(-1 / huge, form(name))) == "-0.0"


@pytest.mark.parametrize("name", NARROW)
def test_rounding_agrees_with_ml_dtypes(name: str) -> None:
    with np.errstate(all="ignore"):
        # From float32: from float64, ml_dtypes rounds twice.
        values = interesting(form(name), 3).astype(np.float32)
        stored = values.astype(STORAGE[name]).astype(np.float64)
    fast = round_to(values.astype(np.float64), form(name))
    assert np.array_equal(fast, stored if form(name).infinities else np.where(np.isnan(stored), fast, stored))


@pytest.mark.parametrize("name", NARROW)
def test_half_gap_is_half_the_distance_to_the_neighbour(name: str) -> None:
    target = form(name)
    values = round_to(interesting(target, 2), target)
    values = values[np.abs(values) < target.max / 2]
    for upward in (True, False):
        gap = half_gap(values, target, np.full(values.shape, upward))
        step = gap if upward else -gap
        neighbour = values + 2 * step
        assert np.array_equal(round_to(neighbour, target), neighbour)
        between = round_to(values + 1.0000001 * step, target)
        assert np.array_equal(between, neighbour)
        assert np.array_equal(round_to(values + 0.9999999 * step, target), values)


@pytest.mark.parametrize("name", list(FORMATS))
def test_half_gap_of_one_value_is_that_of_arrays(name: str) -> None:
    target = form(name)
    powers = np.ldexp(1.0, np.arange(target.emin - target.precision, target.emin + 60))
    values = np.concatenate([round_to(interesting(form("f32"), 3), target), powers, -powers, [np.inf, -np.inf, np.nan]])
    gaps = half_gap(values, target, np.zeros(values.shape, bool))
    ordinary = np.isfinite(values)
    assert [half_gap_of(value, target) for value in values[ordinary].tolist()] == gaps[ordinary].tolist()
    assert [half_gap_of(value, target) for value in values[~ordinary].tolist()] == gaps[~ordinary].tolist()


@given(st.floats(-1e30, 1e30), st.floats(-1e30, 1e30))
def test_add_rounded_rounds_once(a: float, b: float) -> None:
    for name in ("f64", "f32", "bf16", "f16"):
        got = add_rounded(np.array([a]), np.array([b]), form(name))[0]
        exact = Fraction(a) + Fraction(b)
        with mpmath.workprec(3000):
            expected = round_precise(mpmath.mpf(exact.numerator) / exact.denominator, form(name))
        assert got == expected


def test_a_sum_that_float64_would_round_twice() -> None:
    """1 + 2^-24 + 2^-80 lies above the tie of f32, but float64 drops the last term."""
    got = add_rounded(np.array([1.0 + 2.0**-24]), np.array([2.0**-80]), form("f32"))[0]
    assert got == 1.0 + 2.0**-23
    assert round_to(np.array([1.0 + 2.0**-24 + 2.0**-80]), form("f32"))[0] == 1.0


numbers = st.floats(2.0**-200, 2.0**200) | st.floats(-(2.0**200), -(2.0**-200))


# Low parts of ordinary size: what is far from the ends of the range never has subnormal ones.
low_parts = st.integers(-(2**20), 2**20).map(lambda k: k * 2.0**-20)


@given(numbers, low_parts, numbers, low_parts)
def test_double_double_operations(a: float, a_low: float, b: float, b_low: float) -> None:
    first = two_sum(np.array([a]), np.array([a * a_low * 2.0**-54]))
    second = two_sum(np.array([b]), np.array([b * b_low * 2.0**-54]))
    with mpmath.workprec(1000):
        x, y = exact(first), exact(second)
        pairs = [
            (first + second, x + y),
            (first - second, x - y),
            (first * second, x * y),
            (first / second, x / y),
            (root(absolute(first)), mpmath.sqrt(abs(x))),
            (np.array([a]) * second, mpmath.mpf(a) * y),
            (1.0 - second, 1 - y),
        ]
        for got, expected in pairs:
            assert isinstance(got, DoubleDouble)
            assert abs(exact(got) - expected) <= abs(expected) * ULP


@given(numbers, low_parts, st.floats(-1, 1), low_parts)
def test_double_double_sums_in_order_of_size(a: float, a_low: float, ratio: float, b_low: float) -> None:
    b = 0.0 if abs(a * ratio) < 2.0**-500 else a * ratio
    first = two_sum(np.array([a]), np.array([a * a_low * 2.0**-54]))
    second = two_sum(np.array([b]), np.array([b * b_low * 2.0**-54]))
    with mpmath.workprec(1500):
        x, y = exact(first), exact(second)
        if abs(x) >= abs(y):
            assert abs(exact(plus(first, second)) - (x + y)) <= (2 * abs(x) + 2 * abs(y) + abs(x + y)) * 2.0**-106
        assert exact(plus(DoubleDouble(np.zeros(1)), second)) == y


@given(st.lists(numbers, min_size=1, max_size=33))
def test_double_double_sum(values: list[float]) -> None:
    with mpmath.workprec(1000):
        got = exact(DoubleDouble(np.array([values])).sum(1))
        size = mpmath.fsum(values, absolute=True)
        assert abs(got - mpmath.fsum(values)) <= size * ULP * len(values)


def exact(value: DoubleDouble) -> mpmath.mpf:
    return mpmath.mpf(float(value.high[0])) + mpmath.mpf(float(value.low[0]))


def test_sticky_keeps_what_rounding_needs() -> None:
    tie = 1.0 + 2.0**-24
    above, below = DoubleDouble(np.array([tie]), 2.0**-80), DoubleDouble(np.array([tie]), -(2.0**-80))
    assert round_to(above, form("f32"))[0] == 1.0 + 2.0**-23
    assert round_to(below, form("f32"))[0] == 1.0
    assert sticky(DoubleDouble(np.array([tie])))[0] == tie


def test_bits_and_names() -> None:
    assert bits(1.0, form("f32")) == "0x3f800000"
    assert bits(-2.0, form("f64")) == "0xc000000000000000"
    assert bits(448.0, form("e4m3fn")) == "0x7e"
    with pytest.raises(DtypeError, match=r"^outputs\.y:"):
        form("f8", "outputs.y")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            ("f24", "float32", 4, 24, -126, 448.0),
            "f24: its largest number is ",
        ),
        (("e4m3", "float8_e4m3fn", 1, 4, -6, 240.0), "e4m3: its row differs from float8_e4m3fn, which has (1, 4, 0.01"),
        (("e4m3x", "float8_e4m3x", 1, 4, -6, 240.0), "e4m3x: neither NumPy nor ml_dtypes "),
        (
            ("e4m3fnuz", "float8_e4m3fnuz", 1, 4, -7, 240.0, False),
            "e4m3fnuz: its largest number is 224.0, by its bits, and not 240.0, which is that of a format without",
        ),
    ],
)
def test_a_row_that_is_wrong_of_its_format_is_refused(row: tuple[Any, ...], said: str) -> None:
    with pytest.raises(DtypeError) as caught:
        stored(Format(*row))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("name", FORMATS)
def test_the_numbers_of_a_row_are_those_of_its_format(name: str) -> None:
    """The largest and the smallest numbers by their bits, and what is next to them."""
    each, dtype = form(name), STORAGE[name]
    least = np.frombuffer((1).to_bytes(each.itemsize, "little"), dtype).astype(np.float64)
    assert least[0] == each.eta
    assert np.nextafter(np.array(each.tiny, dtype), dtype.type(0)).astype(np.float64) == each.tiny - each.eta
    assert each.tiny == 2.0**each.emin
    assert 2.0**each.emax <= each.max < 2.0**each.emax * 2
    assert (1 + 2 * each.u == np.nextafter(dtype.type(1), dtype.type(2)).astype(np.float64)).all()


tiny = st.floats(-(2.0**-480), 2.0**-480)


@given(tiny, tiny)
def test_what_underflow_adds_to_a_product(a: float, b: float) -> None:
    first, second = two_sum(np.array([a]), np.array([a * 2.0**-54])), np.array([b])
    with mpmath.workprec(5000):
        for got in (first * second, first * DoubleDouble(second)):
            wanted = exact(first) * mpmath.mpf(b)
            assert abs(exact(got) - wanted) <= abs(wanted) * ULP + mpmath.mpf(LOST)
