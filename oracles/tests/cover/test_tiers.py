"""The two tiers never contradict each other."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from oracles import Contract, escalation
from oracles.dtypes import form
from oracles.precise import Bounds, stable
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.tests.common.adversary import RECIPES
from oracles.tests.common.judged import simulated
from oracles.tests.common.problems import CONTRACTS
from oracles.tests.common.tiers import BACKWARD, FORWARD, tiers_agree, tiers_agree_on_weights_that_are_not_finite
from oracles.tiers.problem import FormulaProblem
from oracles.tiers.union import Union
from oracles.truth import GaveUp, OracleDisagreement, Truth


@pytest.mark.some(7)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("op", "dtype"), [*FORWARD, *BACKWARD])
def test_tiers_agree(op: str, recipe: str, dtype: str) -> None:
    """Each recipe meets other contracts; all of them by night."""
    tiers_agree(op, recipe, dtype, 2, first=2 * RECIPES.index(recipe))


@pytest.mark.some(5)
@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize("recipe", ["normal", "few zeros", "one inf", "sum at overflow", "subnormal"])
def test_tiers_agree_where_the_weight_is_not_finite(recipe: str, name: str) -> None:
    tiers_agree_on_weights_that_are_not_finite(recipe, name, 2)


def test_a_disagreement_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast tier that is wrong about a failure, or about a sampled pass, is found out by the precise tier."""
    x = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    problem = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"})
    y = simulated(problem)["y"]
    monkeypatch.setattr("oracles.truth.SAMPLE", 1 - x.shape[1])
    monkeypatch.setattr(FormulaProblem, "plan", lambda *_: None)  # no screen answers before the enclosures
    planted = Truth(problem)
    assert planted.check(Contract(), {"y": y})[0].result == "pass"
    right = planted.enclosures(Contract(), False)["y"]
    narrow = replace(right, inner=(right.outer[0], right.outer[0] * 0.5), outer=(right.outer[0], right.outer[0] * 0.5))
    wide = replace(right, inner=(np.minimum(2 * right.inner[0], 0.0), np.maximum(2 * right.inner[1], 0.0)))
    for enclosure, got in ((narrow, y), (wide, np.asarray(y * np.float32(1.5)))):
        planted = Truth(problem)
        monkeypatch.setattr(planted, "enclosures", lambda *_, e=enclosure, **__: {"y": e})
        with pytest.raises(OracleDisagreement, match=r"rms_norm .* y\["):
            planted.check(Contract(), {"y": got})


def test_a_large_output_that_the_first_algorithm_allows_is_held_against_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that only the second allows is right, too, and one that neither allows is wrong."""
    monkeypatch.setattr(Truth, "keeps", False)
    contract = Contract(algorithm={"var": ("formula", "moments")})
    x = np.random.default_rng(0).standard_normal((3, 16)).astype(np.float32) + np.float32(100)
    problem = Problem("layer_norm", {"eps": 1e-5, "axis": 1}, {"x": x}, {"y": "f32"})
    first, second = (simulated(problem, Contract(algorithm={"var": each}))["y"] for each in ("formula", "moments"))
    said = [Truth(problem).check(contract, {"y": each})[0].result for each in (first, second, second * 2)]
    assert said == ["pass", "pass", "numeric"]
    monkeypatch.setattr(Union, "enclosure", None)
    assert Truth(problem).check(contract, {"y": first})[0].result == "pass"
    with pytest.raises(TypeError):
        Truth(problem).check(contract, {"y": second})


def test_what_fails_is_confirmed_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the verdict is the same, and the precise tier is not asked."""
    x = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    problem = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"})
    wrong = {"y": np.asarray(simulated(problem)["y"] * np.float32(1.5))}
    (sure,) = Truth(problem).check(Contract(), wrong)
    assert sure.contradicts
    monkeypatch.setattr(Truth, "bounds", None)
    (quick,) = Truth(problem, confirms=False).check(Contract(), wrong)
    assert replace(quick, contradicts=True) == sure
    with pytest.raises(TypeError):
        Truth(problem).check(Contract(), wrong)


def test_the_fast_tier_tells_nearly_the_same_of_an_element_that_fails() -> None:
    """Where the precise tier takes minutes, as of a network."""
    x = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    truth = Truth(Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"}))
    whole, rough = (each(Contract(), "y", (1, 3), 1.5) for each in (truth.explain, truth.explain_roughly))
    assert (rough.got, rough.expected) == (whole.got, whole.expected)
    for mine, theirs in ((rough.low, whole.low), (rough.high, whole.high)):
        assert float(mine.value) == pytest.approx(float(theirs.value), rel=1e-6)
    assert (rough.passes, [each.name for each in rough.terms]) == (False, ["rounding"])


def test_what_certainly_fails_does_so_where_there_is_no_time_to_confirm_it(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    problem = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"})
    wrong = {"y": np.asarray(simulated(problem)["y"] * np.float32(1.5))}
    monkeypatch.setattr("oracles.truth._CONFIRM_S", -1.0)
    (check,) = Truth(problem).check(Contract(), wrong)
    assert (check.result, check.failing, check.contradicts) == ("numeric", 32, False)


def test_an_unstable_precise_tier_never_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)
    problem = Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"})
    y = simulated(problem)["y"]
    monkeypatch.setattr(FormulaProblem, "plan", lambda *_: None)
    truth = Truth(problem)
    right = truth.enclosures(Contract(), False)["y"]
    monkeypatch.setattr(
        truth,
        "enclosures",
        lambda *_, **__: {"y": replace(right, unsure=np.ones(y.shape, bool), inner=right.outer[::-1])},
    )
    monkeypatch.setattr(truth, "bounds", lambda *_, **__: None)
    nothing = np.zeros(y.shape, bool)
    monkeypatch.setattr(truth.elements, "decided", lambda *_, **__: (slice(None), nothing, nothing))
    steps = list[escalation.PreciseProgress]()
    monkeypatch.setattr(escalation, "watch", steps.append)
    check = truth.check(Contract(), {"y": y})[0]
    assert (check.result, check.escalated, check.late) == ("gave_up", 8, 0)
    assert [(each.op, each.output, each.done, each.of) for each in steps] == [("rms_norm", "y", k, 8) for k in range(8)]
    monkeypatch.setattr(escalation, "MOST_S", 0.0)
    check = truth.check(Contract(), {"y": y})[0]
    assert (check.result, check.escalated, check.late) == ("gave_up", 8, 8)
    with pytest.raises(GaveUp):
        truth.explain(Contract(), "y", (0, 0), 0.0)


def test_what_lies_beside_a_tie_by_less_than_the_first_precision_tells_is_decided() -> None:
    """As an end of log(1 + e^-120), between two numbers: at 160 bits it was a tie, and at 320 it lay above one."""

    def beside(of_tie: mpmath.mpf) -> Bounds:
        centre = 1 + mpmath.mpf(2) ** -24 + of_tie
        return Bounds(form("f32"), centre, centre, centre)

    found = stable(lambda: beside(mpmath.mpf(2) ** -200))
    assert found is not None
    assert found.ends == (1 + 2.0**-23,) * 2
    assert stable(lambda: beside(mpmath.mpf(2) ** -30 * (-1) ** (mpmath.mp.prec // 160).bit_length())) is None


@pytest.mark.parametrize(("dtype", "scale", "blunt"), [("f32", 1.0, False), ("f16", 1.0, True), ("f32", 1e-42, True)])
def test_a_ratio_that_the_rounding_of_the_output_decides_is_said_to_mean_nothing(
    dtype: str, scale: float, blunt: bool
) -> None:
    """16 bits, and float32 where it is subnormal, are coarser than all errors that are allowed before."""
    x = np.linspace(1.0, 2.0, 12, dtype="<f4").reshape(3, 4)
    weight = np.full(4, scale, "<f4")
    truth = Truth(Problem("rms_norm", {"eps": 0.0}, {"x": x, "weight": weight}, {"y": dtype}))
    exact = x.astype(np.float64) / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=1, keepdims=True)) * weight
    (check,) = truth.check(Contract(), {"y": exact.astype(STORAGE[dtype])})
    assert (check.result, check.blunt) == ("pass", blunt)
