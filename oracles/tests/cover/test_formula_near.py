"""Bounds of values in float64 that outputs are compared with: exact values lie within, and some nearly as far away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest

from oracles.doubledouble import F64
from oracles.elementary.function import Elementary, Tangent
from oracles.elementary.functions import function, records
from oracles.formula.affine.budget import Budget
from oracles.formula.contract import Contract
from oracles.formula.exact import rigorous
from oracles.formula.exact.arithmetic import Precise
from oracles.formula.exact.centre import elements
from oracles.formula.exact.rigorous import Near, Rigorous
from oracles.formula.trace import Kind
from oracles.ops import OPS
from oracles.tests.common.elementary import FUNCTIONS, every_function
from oracles.tests.common.judged import problem
from oracles.tiers.problem import FormulaProblem

COUNT = 60
PAIRS: tuple[Kind, ...] = ("add", "subtract", "multiply", "divide")
ERRORS = (0.0, 2.0**-48, 2.0**-22)


def _near(values: F64, error: float) -> Near:
    return Near(values, np.abs(values) * error) if error else Near(values)


def _ends(a: Near) -> list[Any]:
    """The exact values that it may stand for: those furthest away, and the one in the middle."""
    values = Precise().lift(a.value)
    if isinstance(a.error, float):
        return [values]
    return [values - Precise().lift(a.error), values, values + Precise().lift(a.error)]


def _worst(found: Near, exact: list[Any]) -> float:
    """How far an exact value lies away at most, over how far it may."""
    worst = 0.0
    for each in exact:
        for value, error, right in zip(
            found.value.flat, np.broadcast_to(found.error, found.value.shape).flat, each.flat, strict=True
        ):
            away = abs(mpmath.mpf(float(value)) - right)
            worst = max(worst, float(away / mpmath.mpf(float(error))) if error else (0.0 if not away else np.inf))
    return worst


def _of_pairs(kind: Kind, errors: tuple[float, float]) -> float:
    rng = np.random.default_rng(5)
    a, b = (_near(rng.uniform(0.5, 2, COUNT), error) for error in errors)
    with mpmath.workprec(400):
        exact = [Precise().operate(kind, *each) for each in product(_ends(a), _ends(b))]
        return _worst(Rigorous().operate(kind, a, b), exact)


def _of_function(of: Elementary, error: float, scale: float = 1.0) -> float:
    random = np.random.default_rng(6)
    values = (
        of.domain + random.uniform(0.1, 4.0, COUNT)
        if of.domain >= 0
        else random.uniform(-0.9, 0.9, COUNT) * 3.0 ** (random.uniform(-3, 0 if of.domain > -np.inf else 2, COUNT))
    )
    a = _near(values * scale, error)
    with mpmath.workprec(400), np.errstate(all="ignore"):
        return _worst(Rigorous().apply(of, a), [Precise().apply(of, each) for each in _ends(a)])


def _of_sum(error: float) -> float:
    a = _near(np.random.default_rng(7).uniform(0.5, 1, (COUNT, 2)), error)
    with mpmath.workprec(400):
        return _worst(Rigorous().total(a, 1), [Precise().total(each, 1) for each in _ends(a)])


@pytest.mark.some(18)
@pytest.mark.parametrize("errors", [*product(ERRORS, ERRORS)])
@pytest.mark.parametrize("kind", PAIRS)
def test_of_two_values(kind: Kind, errors: tuple[float, float]) -> None:
    assert 0.8 < _of_pairs(kind, errors) <= 1


@pytest.mark.some(28)
@pytest.mark.parametrize("error", ERRORS)
@every_function
def test_of_functions(of: Elementary, error: float) -> None:
    # Bounds of functions are theorems about what they do: that of erf is reached by a sixth.
    least = -1.0 if of.tangent is None or (of.is_exact and not error) else 0.15
    assert least < _of_function(of, error) <= 1


@pytest.mark.parametrize("error", ERRORS)
def test_of_sums(error: float) -> None:
    assert 0.4 < _of_sum(error) <= 1


def test_sums_of_exact_numbers_that_are_not_rounded_can_be_compared_with_equal_ones() -> None:
    arithmetic = Rigorous()
    sums = arithmetic.operate("add", Near(np.array([3.0, 5.0])), Near(np.array([4.0, 0.5])))
    assert arithmetic.compare("less", sums, Near(np.array([7.0, 5.5]))).tolist() == [False, False]
    rounded = arithmetic.operate("subtract", Near(np.array([3.0, 1.0])), Near(np.array([4.0, 2.0**-60])))
    with pytest.raises(rigorous.UncertainError):
        arithmetic.compare("less", rounded, Near(np.array([-1.0, 1.0])))


def test_a_sum_of_exact_numbers_is_exact_whatever_stands_beside_it() -> None:
    arithmetic, ones = Rigorous(), Near(np.array([1.0, 1.0, 1.0]))
    sums = arithmetic.operate("add", Near(np.array([3.0, np.inf, 2.0**-60])), ones)
    first, second, third = np.asarray(sums.error).tolist()
    assert (first, second) == (0.0, 0.0)
    assert third > 0
    assert arithmetic.compare("less", sums[:1], Near(np.array([4.0]))).tolist() == [False]


def test_of_one_exact_term_and_by_a_power_of_two_nothing_is_rounded() -> None:
    a, four = Near(np.array([[3.1], [-0.7], [np.inf], [0.0]])), Near(np.array(4.0))
    assert not np.any(Rigorous().total(a, 1).error)
    assert not np.any(Rigorous().operate("divide", Near(a.value[:2]), four).error)
    tiny = Near(np.array([3.1, -0.7, 1.0]) * 2.0**-1070)
    with mpmath.workprec(400):
        exact = Precise().operate("divide", *(Precise().lift(each.value) for each in (tiny, four)))
        assert _worst(Rigorous().operate("divide", tiny, four), [exact]) <= 1


@pytest.mark.parametrize(("kind", "scale"), [("multiply", 2.0**-530), ("divide", 1.0), ("multiply", 2.0**-480)])
@pytest.mark.parametrize("error", ERRORS)
def test_where_results_are_subnormal(kind: Kind, scale: float, error: float) -> None:
    rng = np.random.default_rng(8)
    other = 2.0**1023 if kind == "divide" else scale
    a, b = (
        _near(rng.uniform(0.5, 2, COUNT) * size, error) for size in (2.0**-45 if kind == "divide" else scale, other)
    )
    with mpmath.workprec(400):
        assert (
            _worst(Rigorous().operate(kind, a, b), [Precise().operate(kind, *e) for e in product(_ends(a), _ends(b))])
            <= 1
        )


@pytest.mark.parametrize("exponent", [-1060, -700, 700, 1020])
@pytest.mark.parametrize("of", [of for of in FUNCTIONS.values() if of.domain == 0.0], ids=lambda of: of.summary)
def test_of_roots_of_any_size(of: Elementary, exponent: int) -> None:
    assert _of_function(of, 2.0**-22, 2.0**exponent) <= 1


def _half_a_rounding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rigorous, "_U", rigorous._U / 2)


def _half_a_function(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rigorous, "_U", 0.0)
    of = function("sqrt")
    half = of.float64._replace(bound=replace(of.float64.bound, relative=2.0**-54))
    patch.setitem(records(), "sqrt", replace(of, float64=half))


def _half_a_slope(patch: pytest.MonkeyPatch) -> None:
    bend = Elementary.bend

    def half(*given: Any) -> Tangent:
        found = bend(*given)
        return Tangent(found.slope / 2, found.remainder)

    patch.setattr(Elementary, "bend", half)


def _no_error_of_the_second(patch: pytest.MonkeyPatch) -> None:
    operate = Rigorous.operate
    patch.setattr(Rigorous, "operate", lambda self, kind, a, b: operate(self, kind, a, Near(b.value, b.error * 0)))


def _no_errors_of_terms(patch: pytest.MonkeyPatch) -> None:
    total = Rigorous.total
    patch.setattr(Rigorous, "total", lambda self, values, axis: total(self, Near(values.value), axis))


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], float]]] = [
    *((_half_a_rounding, lambda kind=kind: _of_pairs(kind, (0.0, 0.0))) for kind in PAIRS),
    *((_no_error_of_the_second, lambda kind=kind: _of_pairs(kind, (2.0**-48, 2.0**-22))) for kind in PAIRS),
    (_half_a_function, lambda: _of_function(function("sqrt"), 0.0)),
    (_half_a_slope, lambda: _of_function(function("exp"), 2.0**-22)),
    (_half_a_slope, lambda: _of_function(function("sin"), 2.0**-22)),
    (_no_errors_of_terms, lambda: _of_sum(2.0**-22)),
]


@pytest.mark.parametrize(("plant", "worst"), PLANTED)
def test_a_wrong_bound_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], worst: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worst() <= 1
    plant(monkeypatch)
    assert worst() > 1


MIXED = [
    ("rms_norm", Contract("bf16", {"h": "f64", "mean_square": "f64"})),
    ("layer_norm", Contract("f64", {"mean": "bf16", "var": "bf16"}, points={"h": "f16"})),
    ("log_softmax", Contract("f16", {"mass": "f64"})),
]


def _of_budgets() -> float:
    """The largest error of float64's values beside what is known of it, where kernels round some to fewer bits."""
    worst, random = 0.0, np.random.default_rng(3)
    for op, contract in MIXED:
        of = FormulaProblem(problem(OPS[op], "normal", "f32", (1, 12), random))
        (each,) = of.conformance(of.settled(contract), False, of.tensors).members
        read = each.budget.read
        for node, error in read.errors.items():
            if node.args and not any(held is node for held, place in read.held if place is None):
                with mpmath.workprec(200):
                    exact = elements(each.inputs, Precise(), node, {}, each.budget.replaced, {})
                    off = np.abs(exact - Precise().lift(read.forms[node].centre)).astype(float)
                known = error > 0
                assert (off[~known] == 0).all(), node.kind
                worst = max([worst, *(off[known] / error[known])])
    return worst


def test_what_is_known_of_values_beside_roundings_bounds_their_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < _of_budgets() <= 1
    near = Budget._near
    monkeypatch.setattr(Budget, "_near", lambda *given: Near(near(*given).value, near(*given).error * 2.0**-6))
    assert _of_budgets() > 1
