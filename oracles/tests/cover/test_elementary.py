"""Elementary functions: within their bounds of mpmath, of IEEE's special values, and of the same bits everywhere."""

from __future__ import annotations

import ast
import hashlib
import inspect
import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.doubledouble import F64, DoubleDouble, Real, head
from oracles.elementary import bits, doubledouble, float64, quadrants, tables
from oracles.tests.common.elementary import ARITHMETICS, EXACT, NOT_NEGATIVE, arguments, with_low_parts, worst, worst_at

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


def called(name: str, arithmetic: str, x: F64) -> Real:
    value: Real = DoubleDouble(x) if arithmetic == "doubledouble" else x
    result: Real = getattr(ARITHMETICS[arithmetic], name)(value)
    return result


def test_scaling_rounds_once_whatever_stands_beside() -> None:
    """Also where a result is subnormal: half of the way at a time would round twice."""
    number = np.arange(3000)
    x, exponent = np.ldexp(1 + (number * 7919 % 4096) * 2.0**-12 + 2.0**-52, number % 50 - 1022), -(number % 61)
    alone = bits.scaled(x, exponent)
    beside = bits.scaled(np.append(x, 1.0), np.append(exponent, -1060))
    assert np.array_equal(alone, beside[:-1])
    assert alone.tolist() == [math.ldexp(*pair) for pair in zip(x.tolist(), exponent.tolist(), strict=True)]


@every_function
@every_arithmetic
def test_elements_do_not_depend_on_their_neighbours(name: str, arithmetic: str) -> None:
    """In any shape, of any strides, and beside whatever else is in the array."""
    x = np.abs(arguments(name, 900, 2))[:5000]
    whole = head(called(name, arithmetic, x))
    assert np.array_equal(head(called(name, arithmetic, x.reshape(20, 250)[:, ::5])), whole.reshape(20, 250)[:, ::5])
    assert np.array_equal(head(called(name, arithmetic, x[::-7])), whole[::-7])
    few = np.array([head(called(name, arithmetic, x[k])) for k in range(0, 5000, 251)])
    assert few.shape == (20,)
    assert np.array_equal(few, whole[::251])
    assert head(called(name, arithmetic, np.zeros((3, 0)))).shape == (3, 0)


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


def fixed_arguments() -> F64:
    """Bit patterns of all kinds (Steele and Vigna's splitmix64) and numbers of ordinary size, by integers only."""
    with np.errstate(over="ignore"):
        z = np.arange(1, 20_001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    counted = (z >> np.uint64(11)).astype(np.float64)
    return np.concatenate(
        [z.view(np.float64), counted * 2.0**-53, counted * 2.0**-49 - 8.0, counted * 2.0**-43 - 512.0]
    )


DIGESTS = {
    ("float64", "exp"): "0128b5331285e442",
    ("float64", "log"): "35505f320481cb0a",
    ("float64", "tanh"): "b54126b052540aa9",
    ("float64", "sigmoid"): "0bae48e8fda39539",
    ("float64", "erf"): "b2941763c9bbf1ae",
    ("float64", "sin"): "e3634afd1e8f2612",
    ("float64", "cos"): "1e42cd41e0ee2c2b",
    ("float64", "sqrt"): "608b60d213a188d8",
    ("float64", "rsqrt"): "71702445043dee2b",
    ("doubledouble", "exp"): "061f6177d5994ef1",
    ("doubledouble", "log"): "00096d3bcb61b9bc",
    ("doubledouble", "tanh"): "fd2381ca2e64bcbf",
    ("doubledouble", "sigmoid"): "09ad7c963acfd408",
    ("doubledouble", "erf"): "096f7fdf21a1be74",
    ("doubledouble", "sin"): "d60b80cc491a9a74",
    ("doubledouble", "cos"): "48f7903ffb5f3b84",
    ("doubledouble", "sqrt"): "86fe77763d4703c0",
    ("doubledouble", "rsqrt"): "2b7f8c485d2d343c",
}
"""The first 16 digits of SHA-256 of the results, as little-endian float64, high parts before low ones."""


@every_function
@every_arithmetic
def test_every_processor_gives_the_same_bits(name: str, arithmetic: str) -> None:
    assert digest(name, arithmetic) == DIGESTS[arithmetic, name]


def digest(name: str, arithmetic: str) -> str:
    """Of the results at `fixed_arguments`, with low parts for double-double."""
    x = fixed_arguments()
    with np.errstate(all="ignore"):
        low = np.where(np.isfinite(x), x * np.roll(x, 1).view(np.int64) * 2.0**-118, 0.0)
        total = x + low
        value: Real = x if arithmetic == "float64" else DoubleDouble(total, low - (total - x))
    result: Real = getattr(ARITHMETICS[arithmetic], name)(value)
    parts = [result.high, result.low] if isinstance(result, DoubleDouble) else [result]
    return hashlib.sha256(b"".join(part.astype("<f8").tobytes() for part in parts)).hexdigest()[:16]


ALLOWED = [
    "abs",
    "array",
    "ascontiguousarray",
    "bool_",
    "clip",
    "copysign",
    "empty_like",
    "errstate",
    "float64",
    "full_like",
    "inf",
    "int64",
    "isfinite",
    "isnan",
    "ldexp",
    "maximum",
    "nan",
    "ones_like",
    "shape",
    "sqrt",
    "where",
    "zeros_like",
]
"""Of NumPy: what IEEE 754 or integers fix to the bit. `ldexp` makes tables only, of normal numbers."""


@pytest.mark.parametrize("module", [bits, doubledouble, float64, quadrants, tables])
def test_nothing_is_called_that_a_processor_has_its_own_of(module: object) -> None:
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
    }
    assert used
    assert used <= set(ALLOWED)


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


def test_importing_the_package_loads_neither_numpy_nor_mpmath() -> None:
    code = "import sys, oracles.elementary; sys.exit(any(name in sys.modules for name in ('numpy', 'mpmath')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_double_double_arguments_of_all_kinds_are_normal() -> None:
    """The arguments of these tests: high parts are those of the sum."""
    for name in EXACT:
        value = with_low_parts(name, arguments(name, 80, 1), 0)
        assert np.array_equal(value.high + value.low, value.high)
