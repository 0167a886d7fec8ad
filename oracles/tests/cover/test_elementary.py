"""Elementary functions: within their bounds of mpmath, and with IEEE's special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.doubledouble import F64, DoubleDouble, head
from oracles.elementary import gamma, tables
from oracles.elementary.function import Elementary
from oracles.elementary.functions import erfc, function
from oracles.tests.common.elementary import (
    ARITHMETICS,
    FUNCTIONS,
    Arithmetic,
    arguments,
    called,
    cells,
    every_function,
    with_low_parts,
    worst,
    worst_at,
)
from oracles.tests.common.whole import quarter

INF, NAN = math.inf, math.nan
LARGEST, LEAST = 2.0**1023 * (2 - 2.0**-52), 2.0**-1074

every_arithmetic = pytest.mark.parametrize("arithmetic", ARITHMETICS)


@pytest.mark.some(7)
@every_function
@every_arithmetic
def test_errors_are_within_the_bound(of: Elementary, arithmetic: Arithmetic) -> None:
    found = worst(of, arithmetic, arguments(of, 80, 1))
    assert found.ratio <= 1, found


@pytest.mark.some(1)
@every_arithmetic
@given(x=st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=quarter(50))
def test_any_finite_argument_is_within_the_bound(arithmetic: Arithmetic, x: float) -> None:
    for name, of in FUNCTIONS.items():
        if of.domain < x < of.top and x:
            found = worst(of, arithmetic, np.array([x]))
            assert found.ratio <= 1, (name, found)


@pytest.mark.some(1)
@every_function
def test_low_parts_of_every_size(of: Elementary) -> None:
    """Down to the least number there is, where the high part is a zero of a function, or is not."""
    low = np.ldexp(np.tile([1.0, -1.0], 510), np.arange(-1074, -54))
    for high in (1.0, 0.75, -2.5, 2.0**60):
        if of.domain < high < of.top:
            found = worst_at(of, DoubleDouble(np.full_like(low, high), low * max(1.0, abs(high))))
            assert found.ratio <= 1, found


def test_bounds_are_what_judging_counts_on() -> None:
    for name, of in FUNCTIONS.items():
        assert of.float64.bound.relative <= 2.0**-50, name
        assert of.double.bound.relative <= 2.0**-96, name


FAULTS: list[tuple[Arithmetic, str, str, float]] = [
    ("float64", "exp.SHORT", "exp", 2.0**-20),
    ("float64", "exp.SHORT", "sigmoid", 2.0**-20),
    ("float64", "expm1.LONGER", "tanh", 2.0**-20),
    ("float64", "log.SHORT", "log", 2.0**-20),
    ("float64", "sin.SINE", "sin", 2.0**-40),
    ("float64", "sin.COSINE", "cos", 2.0**-40),
    ("double", "exp.LONG", "exp", 2.0**-20),
    ("double", "exp.LONG", "tanh", 2.0**-20),
    ("double", "exp.LONG", "sigmoid", 2.0**-20),
    ("double", "log.LONG", "log", 2.0**-20),
    ("double", "sin.DOUBLE_SINE", "sin", 2.0**-20),
    ("double", "sin.DOUBLE_COSINE", "cos", 2.0**-20),
    ("double", "sin.DOUBLE_COSINE", "tan", 2.0**-20),
    ("double", "exp.LONG", "sinh", 2.0**-20),
    ("double", "exp.LONG", "exp10", 2.0**-20),
]


@pytest.mark.some(4)
@pytest.mark.parametrize(("arithmetic", "constant", "name", "relative"), FAULTS)
def test_a_wrong_coefficient_is_seen(
    arithmetic: Arithmetic, constant: str, name: str, relative: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, attribute = constant.partition(".")
    place = import_module(f"oracles.elementary.functions.{module}")
    first, *others = getattr(place, attribute)
    monkeypatch.setattr(place, attribute, [first * (1 + relative), *others])
    of = function(name)
    assert worst(of, arithmetic, arguments(of, 200, 1)).ratio > 1


TABLES: list[tuple[Arithmetic, str, Callable[[], F64], float]] = [
    ("float64", "exp", lambda: tables.powers().value.high, 2.0**-51),
    ("float64", "tanh", lambda: tables.powers().value.high, 2.0**-51),
    ("float64", "log", lambda: tables.logarithms().rest, 2.0**-51),
    ("float64", "erf", lambda: tables.erf_cells()[0].low, 2.0**-50),
    ("float64", "erfc", lambda: erfc.scaled_cells()[0].high[:150], 2.0**-47),
    ("double", "erfc", lambda: erfc.scaled_cells()[0].low[:150], 2.0**-90),
    ("double", "tgamma", lambda: gamma.cells().columns[0].low[:90], 2.0**-90),
    ("double", "lgamma", lambda: gamma.cells().columns[1].low[:90], 2.0**-78),
    ("double", "exp", lambda: tables.powers().less_one.low, 2.0**-98),
    ("double", "log", lambda: tables.logarithms().value.low, 2.0**-98),
    ("double", "erf", lambda: tables.erf_cells()[0].low, 2.0**-98),
    ("double", "sin", lambda: tables.angles().sine.low, 2.0**-98),
    ("double", "cos", lambda: tables.angles().cosine.low, 2.0**-98),
]


@pytest.mark.some(2)
@pytest.mark.parametrize(("arithmetic", "name", "column", "amount"), TABLES)
def test_a_wrong_entry_of_a_table_is_seen(
    arithmetic: Arithmetic, name: str, column: Callable[[], F64], amount: float
) -> None:
    entries = column()
    place = entries.size // 3
    kept = entries[place]
    entries[place] += amount
    try:
        x = cells(np.random.default_rng(1))
        assert worst(function(name), arithmetic, x[x > function(name).domain]).ratio > 1
    finally:
        entries[place] = kept


SPECIAL: dict[str, dict[float, float]] = {
    "exp": {LARGEST: INF, -LARGEST: 0.0, 709.79: INF, -745.2: 0.0, -745.1: LEAST},
    "log": {-LEAST: NAN, -1.0: NAN, 1.0: 0.0},
    "tanh": {LARGEST: 1.0, -LARGEST: -1.0, LEAST: LEAST, -LEAST: -LEAST},
    "sigmoid": {LARGEST: 1.0, -LARGEST: 0.0, -745.1: LEAST},
    "erf": {LARGEST: 1.0, -LARGEST: -1.0, LEAST: LEAST, -LEAST: -LEAST},
    "erfc": {LARGEST: 0.0, -LARGEST: 2.0, 27.3: 0.0, 27.2: 2 * LEAST, LEAST: 1.0},
    "sin": {LEAST: LEAST, -LEAST: -LEAST},
    "cos": {LEAST: 1.0},
    "tan": {LEAST: LEAST, -LEAST: -LEAST},
    "tgamma": {
        5.0: 24.0,
        171.7: INF,
        -1.0: NAN,
        -3.0: NAN,
        -LARGEST: NAN,
        LARGEST: INF,
        -200.5: -0.0,
        LEAST: INF,
        -LEAST: -INF,
    },
    "lgamma": {1.0: 0.0, 2.0: 0.0, -1.0: INF, -5.0: INF, -LARGEST: INF, LARGEST: INF},
    "asin": {LEAST: LEAST, -LEAST: -LEAST},
    "acos": {LEAST: math.pi / 2},
    "sinh": {LARGEST: INF, -LARGEST: -INF, LEAST: LEAST, -LEAST: -LEAST},
    "cosh": {LARGEST: INF, -LARGEST: INF, LEAST: 1.0},
    "asinh": {LEAST: LEAST, -LEAST: -LEAST},
    "acosh": {-2.0: NAN, 0.5: NAN},
    "atanh": {LEAST: LEAST, -LEAST: -LEAST},
    "exp10": {LARGEST: INF, -LARGEST: 0.0, 3.0: 1000.0, 22.0: 1e22, -324.5: 0.0},
    "log10": {-LEAST: NAN, 1.0: 0.0, 1000.0: 3.0, 1e22: 22.0},
    "cbrt": {8.0: 2.0, -27.0: -3.0, 2.0**-1074: 2.0**-358},
    "sqrt": {-LEAST: NAN, 4.0: 2.0, 2.0**-1074: 2.0**-537},
    "rsqrt": {-LEAST: NAN, 4.0: 0.5, 2.0**-1074: 2.0**537},
}
"""Beside the limits of the records."""


@every_function
@every_arithmetic
def test_special_values(of: Elementary, arithmetic: Arithmetic) -> None:
    """The limits that a record states are those of its arithmetics, bit for bit; what is below the domain is NaN."""
    wanted = [(x, y) for x, y in of.limits if y is not None] + [*SPECIAL.get(of.name, {}).items(), (-NAN, NAN)]
    for end, beyond in ((of.domain, -INF), (of.top, INF)):
        if math.isfinite(end):
            wanted += [(math.nextafter(end, beyond), NAN), (end + math.copysign(1.0, beyond), NAN)]
    x, y = np.array(wanted).T
    got = called(of, arithmetic, x)
    assert head(got).view(np.int64).tolist() == y.view(np.int64).tolist(), dict(zip(x, head(got), strict=True))
    if isinstance(got, DoubleDouble):
        assert not got.low[~np.isfinite(y)].any()


@pytest.mark.some(14)
@every_function
def test_both_arithmetics_agree(of: Elementary) -> None:
    x = arguments(of, 3000, 3)
    single, double = head(called(of, "float64", x)), head(called(of, "double", x))
    bound = of.float64.bound
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.abs(single - double) > (bound.relative + 2.0**-53) * np.abs(double) * (1 + 2.0**-40) + bound.absolute
    assert not apart.any(), x[apart]


@every_arithmetic
def test_odd_functions_are_odd_and_even_ones_even(arithmetic: Arithmetic) -> None:
    for name, of in FUNCTIONS.items():
        if of.parity != "neither":
            x, sign = arguments(of, 1000, 4), -1.0 if of.parity == "odd" else 1.0
            assert np.array_equal(sign * head(called(of, arithmetic, x)), head(called(of, arithmetic, -x))), name


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
    for of in FUNCTIONS.values():
        value = with_low_parts(arguments(of, 80, 1), 0)
        assert np.array_equal(value.high + value.low, value.high)
