"""Elementary functions: within their bounds of mpmath, and with IEEE's special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.doubledouble import F64, DoubleDouble, head
from oracles.elementary import doubledouble, float64, tables
from oracles.tests.common.elementary import (
    ARITHMETICS,
    EXACT,
    NOT_NEGATIVE,
    arguments,
    called,
    with_low_parts,
    worst,
    worst_at,
)

INF, NAN = math.inf, math.nan
LARGEST, LEAST = 2.0**1023 * (2 - 2.0**-52), 2.0**-1074

every_function = pytest.mark.parametrize("name", EXACT)
every_arithmetic = pytest.mark.parametrize("arithmetic", ARITHMETICS)


@every_function
@every_arithmetic
def test_errors_are_within_the_bound(name: str, arithmetic: str) -> None:
    found = worst(name, arithmetic, arguments(name, 80, 1))
    assert found.ratio <= 1, found


@every_arithmetic
@given(x=st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=50)
def test_any_finite_argument_is_within_the_bound(arithmetic: str, x: float) -> None:
    for name in EXACT:
        if x > 0 or name not in NOT_NEGATIVE:
            found = worst(name, arithmetic, np.array([x]))
            assert found.ratio <= 1, (name, found)


@every_function
def test_low_parts_of_every_size(name: str) -> None:
    """Down to the least number there is, where the high part is a zero of a function, or is not."""
    low = np.ldexp(np.tile([1.0, -1.0], 510), np.arange(-1074, -54))
    for high in (1.0, 0.75, -2.5, 2.0**60):
        if high > 0 or name not in NOT_NEGATIVE:
            found = worst_at(name, DoubleDouble(np.full_like(low, high), low * max(1.0, abs(high))))
            assert found.ratio <= 1, found


def test_bounds_are_what_judging_counts_on() -> None:
    assert list(float64.BOUNDS) == list(doubledouble.BOUNDS) == list(EXACT)
    assert max(bound.relative for bound in float64.BOUNDS.values()) <= 2.0**-50
    assert max(bound.relative for bound in doubledouble.BOUNDS.values()) <= 2.0**-100


FAULTS = [
    (float64, "EXP", "exp", 2.0**-20),
    (float64, "EXP", "sigmoid", 2.0**-20),
    (float64, "EXP_LONGER", "tanh", 2.0**-20),
    (float64, "LOG", "log", 2.0**-20),
    (float64, "SINE", "sin", 2.0**-40),
    (float64, "COSINE", "cos", 2.0**-40),
    (doubledouble, "EXP", "exp", 2.0**-20),
    (doubledouble, "EXP", "tanh", 2.0**-20),
    (doubledouble, "EXP", "sigmoid", 2.0**-20),
    (doubledouble, "LOG", "log", 2.0**-20),
    (doubledouble, "SINE", "sin", 2.0**-20),
    (doubledouble, "COSINE", "cos", 2.0**-20),
]


@pytest.mark.parametrize(("module", "constant", "name", "relative"), FAULTS)
def test_a_wrong_coefficient_is_seen(
    module: object, constant: str, name: str, relative: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = getattr(module, constant)
    monkeypatch.setattr(module, constant, [first * (1 + relative), *others])
    arithmetic = "float64" if module is float64 else "doubledouble"
    assert worst(name, arithmetic, arguments(name, 80, 1)).ratio > 1


TABLES = [
    ("float64", "exp", lambda: tables.powers().value.high, 2.0**-51),
    ("float64", "tanh", lambda: tables.powers().value.high, 2.0**-51),
    ("float64", "log", lambda: tables.logarithms().rest, 2.0**-51),
    ("float64", "erf", lambda: tables.erf_cells()[0].low, 2.0**-50),
    ("doubledouble", "exp", lambda: tables.powers().less_one.low, 2.0**-98),
    ("doubledouble", "log", lambda: tables.logarithms().value.low, 2.0**-98),
    ("doubledouble", "erf", lambda: tables.erf_cells()[0].low, 2.0**-98),
    ("doubledouble", "sin", lambda: tables.turns().sine.low, 2.0**-98),
    ("doubledouble", "cos", lambda: tables.turns().cosine.low, 2.0**-98),
]


@pytest.mark.parametrize(("arithmetic", "name", "column", "amount"), TABLES)
def test_a_wrong_entry_of_a_table_is_seen(arithmetic: str, name: str, column: Callable[[], F64], amount: float) -> None:
    entries = column()
    place = entries.size // 3
    kept = entries[place]
    entries[place] += amount
    try:
        assert worst(name, arithmetic, arguments(name, 80, 1)).ratio > 1
    finally:
        entries[place] = kept


SPECIAL: dict[str, dict[float, float]] = {
    "exp": {INF: INF, -INF: 0.0, 0.0: 1.0, LARGEST: INF, -LARGEST: 0.0, 709.79: INF, -745.2: 0.0, -745.1: LEAST},
    "log": {INF: INF, 0.0: -INF, -LEAST: NAN, -1.0: NAN, -INF: NAN, 1.0: 0.0},
    "tanh": {INF: 1.0, 0.0: 0.0, LARGEST: 1.0, LEAST: LEAST},
    "sigmoid": {INF: 1.0, -INF: 0.0, 0.0: 0.5, LARGEST: 1.0, -LARGEST: 0.0, -745.1: LEAST},
    "erf": {INF: 1.0, 0.0: 0.0, LARGEST: 1.0, LEAST: LEAST},
    "sin": {INF: NAN, -INF: NAN, 0.0: 0.0, LEAST: LEAST},
    "cos": {INF: NAN, -INF: NAN, 0.0: 1.0, LEAST: 1.0},
    "sqrt": {INF: INF, 0.0: 0.0, -LEAST: NAN, -INF: NAN, 4.0: 2.0, 2.0**-1074: 2.0**-537},
    "rsqrt": {INF: 0.0, 0.0: INF, -LEAST: NAN, -INF: NAN, 4.0: 0.5, 2.0**-1074: 2.0**537},
}

OF_NEGATIVE_ZERO = {"exp": 1.0, "log": -INF, "sigmoid": 0.5, "cos": 1.0, "rsqrt": -INF}
"""All others give it back."""


@every_function
@every_arithmetic
def test_special_values(name: str, arithmetic: str) -> None:
    wanted = dict(SPECIAL[name])
    if name in ("tanh", "erf", "sin"):
        wanted |= {-x: -y for x, y in wanted.items() if x and not math.isnan(y)}
    x = np.array([*wanted, -0.0, NAN, -NAN])
    y = np.array([*wanted.values(), OF_NEGATIVE_ZERO.get(name, -0.0), NAN, NAN])
    got = called(name, arithmetic, x)
    assert head(got).view(np.int64).tolist() == y.view(np.int64).tolist(), dict(zip(x, head(got), strict=True))
    if isinstance(got, DoubleDouble):
        assert not got.low[~np.isfinite(y)].any()


@every_function
def test_both_arithmetics_agree(name: str) -> None:
    x = arguments(name, 3000, 3)
    single, double = head(called(name, "float64", x)), head(called(name, "doubledouble", x))
    bound = float64.BOUNDS[name]
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.abs(single - double) > (bound.relative + 2.0**-53) * np.abs(double) * (1 + 2.0**-40) + bound.absolute
    assert not apart.any(), x[apart]


@every_arithmetic
def test_odd_functions_are_odd(arithmetic: str) -> None:
    for name in ("tanh", "erf", "sin"):
        x = arguments(name, 1000, 4)
        assert np.array_equal(-head(called(name, arithmetic, x)), head(called(name, arithmetic, -x)))


def test_no_number_is_nearer_to_a_quarter_turn_than_the_reduction_counts_on() -> None:
    """The least |m 2^e - k pi/2| of integers m < 2^53, k > 0, is at a convergent of the continued fraction of
    2^e/(pi/2)."""
    with mpmath.workprec(1400):
        quarter = Fraction(int(mpmath.ldexp(mpmath.pi / 2, 1300)), 1 << 1300)
    nearest = min(distance(Fraction(2) ** exponent / quarter) for exponent in range(-60, 972))
    assert 2.0**-61 < float(nearest * quarter) < 2.0**-60


def distance(ratio: Fraction) -> Fraction:
    """The least |m ratio - k| of k > 0 and m < 2^53."""
    k, k_before, m, m_before, rest, least = 1, 0, 0, 1, ratio, Fraction(1)
    while True:
        digit = math.floor(rest)
        k, k_before, m, m_before = digit * k + k_before, k, digit * m + m_before, m
        if m >= 2**53:
            return least
        least = min(least, abs(m * ratio - k)) if k else least
        rest = 1 / (rest - digit)


def test_double_double_arguments_of_all_kinds_are_normal() -> None:
    """The arguments of these tests: high parts are those of the sum."""
    for name in EXACT:
        value = with_low_parts(name, arguments(name, 80, 1), 0)
        assert np.array_equal(value.high + value.low, value.high)
