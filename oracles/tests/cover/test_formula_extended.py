"""Double-double with an exponent of its own is as near to the exact value as double-double, at any magnitude."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.typing import NDArray

from oracles.doubledouble import ULP, DoubleDouble, ExtendedDouble
from oracles.elementary.function import Elementary
from oracles.elementary.functions import function
from oracles.formula.contract import Contract
from oracles.formula.exact import extended
from oracles.formula.exact.arithmetic import Double, Precise
from oracles.formula.exact.extended import Extended
from oracles.formula.trace import Kind
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.simulated.simulation import simulate
from oracles.tests.common.elementary import FUNCTIONS, every_function
from oracles.truth import OracleDisagreement, Truth

COUNT = 1_000
LARGEST = float(np.finfo(np.float64).max)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0**-1074, 1.7e308])
DOUBLE = Contract("f64")
OPERATIONS: tuple[Kind, ...] = ("add", "subtract", "multiply", "divide")
COMPARISONS: tuple[Kind, ...] = ("less", "at_most")


def _numbers(seed: int, least: int, most: int, shape: tuple[int, ...] = (COUNT,)) -> ExtendedDouble:
    """Return numbers of both signs, with exponents in [least, most)."""
    rng = np.random.default_rng(seed)
    high = rng.uniform(0.5, 1, shape) * rng.choice([-1, 1], shape)
    low = high * 2.0**-54 * rng.uniform(-1, 1, shape)
    return ExtendedDouble.of(DoubleDouble(high, low), rng.integers(least, most, shape))


def _exactly(value: ExtendedDouble) -> NDArray[Any]:
    """In mpmath, at its current working precision."""
    parts = (each.flat for each in (value.fraction.high, value.fraction.low, value.exponent))
    found = [mpmath.ldexp(mpf(float(h)) + mpf(float(low)), int(e)) for h, low, e in zip(*parts, strict=True)]
    return np.array(found, dtype=object).reshape(value.shape)


@pytest.mark.some(6)
@pytest.mark.parametrize("kind", OPERATIONS)
@pytest.mark.parametrize("apart", [3, 60, 4_000])
def test_operations_are_those_of_double_double_at_any_magnitude(kind: Kind, apart: int) -> None:
    a = _numbers(1, -4_000, 4_000)
    near = _numbers(2, -apart, apart)
    b = ExtendedDouble(near.fraction, a.exponent + near.exponent)
    with mpmath.workprec(12_000):
        one, other, found = (_exactly(each) for each in (a, b, Extended().operate(kind, a, b)))
        exact = Precise().operate(kind, one, other)
        beside = np.maximum(np.abs(one), np.abs(other)) if kind in ("add", "subtract") else np.abs(exact)
        assert max(np.abs(found - exact) / beside) <= ULP


@pytest.mark.some(7)
@every_function
@pytest.mark.parametrize("magnitudes", [(-4_000, -880), (-920, -1), (-60, 6), (0, 10)])
def test_functions_are_those_of_double_double_at_any_magnitude(of: Elementary, magnitudes: tuple[int, int]) -> None:
    x = _numbers(3, *magnitudes)
    with mpmath.workprec(400):
        if np.isfinite(of.domain):
            x = Extended().apply(function("abs"), x)
        found = _exactly(Extended().apply(of, x))
        for value, got in zip(_exactly(x), found, strict=True):
            exact = of.exactly(value)
            if mpmath.isnan(exact):
                assert mpmath.isnan(got)
                continue
            known = max(ULP, of.double.bound.relative) * abs(exact)
            if of.name == "erfc":  # as far off as its argument, see `Elementary.extended`
                known += abs(of.exactly(value * (1 + mpmath.ldexp(1, -108))) - exact)
            assert abs(got - exact) <= known, value


def test_an_exponential_that_no_format_holds_is_as_far_off_as_its_argument() -> None:
    x = _numbers(4, 10, 25)
    with mpmath.workprec(400):
        for value, got in zip(_exactly(x), _exactly(Extended().apply(function("exp"), x)), strict=True):
            exact = mpmath.exp(value)
            assert abs(got - exact) <= exact * abs(value) * 2.0**-108


def test_sums_are_within_the_same_share_of_what_they_add() -> None:
    x = _numbers(5, -40, 40, (6, 501))
    with mpmath.workprec(400):
        exact, found = _exactly(x), _exactly(x.sum(1))
        error = np.abs(found[:, 0] - exact.sum(1))
        assert (error <= np.abs(exact).sum(1) * 12 * ULP).all()


def test_special_values_do_as_in_double_double() -> None:
    with np.errstate(all="ignore"):
        x, y = np.meshgrid(SPECIAL, SPECIAL)
        wide, double = Extended(), Double()
        for kind in OPERATIONS:
            found = wide.operate(kind, wide.lift(x), wide.lift(y)).doubled.high
            np.testing.assert_array_equal(found, double.operate(kind, double.lift(x), double.lift(y)).high, kind)
        for kind in COMPARISONS:
            mask = wide.compare(kind, wide.lift(x), wide.lift(y))
            np.testing.assert_array_equal(mask, double.compare(kind, double.lift(x), double.lift(y)), kind)
        for name, of in FUNCTIONS.items():
            found = wide.apply(of, wide.lift(SPECIAL)).doubled.high
            np.testing.assert_array_equal(found, double.apply(of, double.lift(SPECIAL)).high, name)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 64])
def test_the_greatest_is_found_among_any_number_and_nan_stays(n: int) -> None:
    x = np.random.default_rng(6).standard_normal((4, n, 3))
    x[0, n // 2 :, 1] = np.nan
    found = Extended().greatest(Extended().lift(x), 1).doubled.high
    np.testing.assert_array_equal(found, x.max(1, keepdims=True, initial=-np.inf))


def _far_off(name: str, power: int, seed: int) -> Problem:
    """A problem in float64 of numbers about so large, whose squares leave its range."""
    rng, op = np.random.default_rng(seed), OPS[name]
    sizes = {dim: 24 for each in op.inputs for dim in each.axes} | {"...": 3}
    inputs = {
        each.name: rng.standard_normal([sizes[dim] for dim in each.axes]) * 2.0**power
        for each in op.inputs
        if not each.optional
    }
    params = {each.name: 0.0 for each in op.parameters if each.neutral is None}
    return Problem(name, params, inputs, {each.name: "f64" for each in op.outputs if not each.optional}, True)


@pytest.mark.parametrize("power", [-540, -505, 505])
@pytest.mark.parametrize("name", ["rms_norm", "rms_norm_backward", "layer_norm", "layer_norm_backward"])
def test_no_element_needs_the_precise_tier_because_a_square_left_the_range(name: str, power: int) -> None:
    of = _far_off(name, power, 7)
    checks = Truth(of).check(DOUBLE, simulate(of, DOUBLE, np.random.default_rng(8)))
    assert [(each.result, each.escalated) for each in checks] == [("pass", 0)] * len(of.outputs)


def _judged(seeds: range) -> None:
    for seed in seeds:
        of = _far_off("rms_norm_backward", -530, seed)
        Truth(of).check(DOUBLE, simulate(of, DOUBLE, np.random.default_rng(seed)))


@pytest.mark.whole
def test_without_it_the_tiers_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    _judged(range(200))
    monkeypatch.setattr(extended, "_leaves_range", lambda node, values: False)
    with pytest.raises(OracleDisagreement):
        _judged(range(200))


def test_ends_of_results_just_below_overflow_are_numbers() -> None:
    rng = np.random.default_rng(9)
    inputs = {"x": rng.choice([-1.0, 1.0], (2, 8)), "weight": rng.uniform(1.0e308, 1.7e308, 8)}
    of = Problem("rms_norm", {"eps": 0.0, "weight_offset": 0.0}, inputs, {"y": "f64"}, True)
    enclosure = Truth(of).enclosures(DOUBLE, True)["y"]
    assert all(np.isfinite(end).all() for end in (*enclosure.outer, *enclosure.inner))
    (check,) = Truth(of).check(DOUBLE, simulate(of, DOUBLE, rng))
    assert (check.result, check.escalated) == ("pass", 0)


def _result(y: list[float], dy: list[float], got: float) -> str:
    """How it is judged as the first element of a gradient of softmax."""
    of = Problem("softmax_backward", {}, {"y": np.array([y]), "dy": np.array([dy])}, {"dx": "f64"}, structured=True)
    dx = simulate(of, DOUBLE, np.random.default_rng(0))["dx"].copy()
    dx[0, 0] = got
    return Truth(of).check(DOUBLE, {"dx": dx})[0].result


@pytest.mark.parametrize(("got", "result"), [(-LARGEST, "pass"), (-np.inf, "pass"), (-LARGEST / 2, "numeric")])
def test_what_is_just_beyond_the_largest_number_may_be_that_number(got: float, result: str) -> None:
    """Double-double has the exact value, or float64 its own, as infinite, and with it both of the ends around it."""
    tiny = [LARGEST / 2, 1.5 * 2.0**-512, 3 * 2.0**-1074], [2.0**-1022 + 2.0**-1074, -1.0, -0.0]
    assert _result(*tiny, got) == result
    assert _result([LARGEST / 2, 1.0, 1.0], [0.0, 1.0, 1.0 + 2.0**-51], got) == result


def test_what_is_just_below_the_largest_number_is_judged() -> None:
    """An end beyond the range of double-double is NaN there, however far from it the budget of the formula ends."""
    for below in range(24):
        row = [LARGEST / 2, 1.0, 1.0], [0.0, 1.0, 1.0 - below * 2.0**-53]
        exact = -LARGEST * (1 - below * 2.0**-54)
        assert _result(*row, exact) == "pass", below
        assert _result(*row, exact * (1 - 2.0**-48)) == "numeric", below


@pytest.mark.parametrize(("got", "result"), [(-LARGEST, "numeric"), (-np.inf, "pass")])
def test_what_is_far_beyond_the_largest_number_is_infinite(got: float, result: str) -> None:
    assert _result([LARGEST / 2, 1.0, 1.0], [0.0, 1.0, 1.0 + 2.0**-40], got) == result
