"""The screen passes nothing that the enclosures do not, and nearly all that they do; of that it says the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from oracles import Numerics
from oracles.problem import Problem
from oracles.screen import Screens
from oracles.simulation import rms_norm
from oracles.tests.common.adversary import RECIPES, step, store
from oracles.tests.common.problems import forward
from oracles.tests.common.screens import (
    EVERY,
    FORWARD,
    SATURATING,
    checked,
    screened,
    screens_agree,
)
from oracles.truth import Truth


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("op", "dtype"), FORWARD)
def test_what_the_screen_passes_conforms_and_is_as_far_off_as_the_enclosures_say(
    op: str, recipe: str, dtype: str
) -> None:
    screens_agree(op, recipe, dtype, 13)


@pytest.mark.parametrize(
    "numerics", [SATURATING, replace(SATURATING, cast="gemma"), Numerics(), Numerics(cast="llama")]
)
@pytest.mark.parametrize("op", ["rms_norm", "fused_add_rms_norm"])
def test_the_screen_knows_outputs_that_overflow_and_weights_that_are_not_finite(op: str, numerics: Numerics) -> None:
    rng = np.random.default_rng(13)
    for problem in forward(op, "normal", "f16", 8, 9):
        weight = rng.choice([np.nan, np.inf, -np.inf, 0.0, 1.5, 3e4, -6e4], problem.input("x").shape[1])
        large = {name: store(problem.input(name).astype(np.float64) * 2.0**14, "f16") for name in problem.inputs}
        inputs = {**large, "weight": store(weight, "f16")}
        assert checked(replace(problem, inputs=inputs, outputs={**problem.outputs, "y": "f16"}), numerics, rng)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_screen_passes_what_is_barely_right_and_nothing_that_is_barely_wrong(dtype: str, weighted: bool) -> None:
    """On the ends of the conformance sets, and one neighbour past them in one element."""
    rng = np.random.default_rng(12)
    decided = 0
    for n in (3, 33, 400):
        x, weight = store(rng.standard_normal((4, n)), dtype), store(rng.uniform(0.5, 2, n), dtype)
        inputs = {"x": x, "weight": weight} if weighted else {"x": x}
        problem = Problem("rms_norm", {"eps": 1e-5}, inputs, {"y": dtype, "rstd": "f32"})
        contracts = EVERY[:3]
        truth = Truth(problem, contracts)
        for numerics in contracts:
            for name, enclosure in truth.enclosures(numerics, False).items():
                assert enclosure.negative is not None
                sign = np.where(enclosure.negative, -1.0, 1.0)
                for end, outward in zip(enclosure.inner, (-1, 1), strict=True):
                    decided += screened(truth, name, numerics, sign * end) is not None
                    at = int(rng.integers(end.size))
                    beyond = end.copy()
                    beyond.flat[at] = step(enclosure.outer[outward > 0], outward, enclosure.form).flat[at]
                    assert screened(truth, name, numerics, sign * beyond) is None
                    unsigned = sign * end
                    unsigned.flat[at] = -unsigned.flat[at]
                    assert screened(truth, name, numerics, unsigned) is None
    assert decided == 3 * 3 * 2 * 2


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("recipe", ["normal", "spike", "one nan", "one inf", "few zeros", "wide"])
def test_right_outputs_need_no_enclosures(dtype: str, recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with NaN, infinities and zeros among them: or most runs of a search would pay for the fast tier."""
    numerics = Numerics()
    for problem in forward("rms_norm", recipe, dtype, 12, 40):
        if "weight" in problem.inputs or not problem.eps:
            continue
        x = problem.input("x")
        with np.errstate(all="ignore"):
            y, root = rms_norm(x, numerics, problem.eps, problem.outputs["y"])
        truth = Truth(problem, [numerics])
        monkeypatch.setattr(truth, "enclosures", lambda *_: pytest.fail("the screen did not decide"))
        assert [check.result for check in truth.check(numerics, {"y": y, "rstd": root})] == ["pass", "pass"]


def test_screens_of_a_contract_are_made_once_whichever_is_asked_about_first(monkeypatch: pytest.MonkeyPatch) -> None:
    x = store(np.random.default_rng(15).standard_normal((2, 8)), "f32")
    truth = Truth(Problem("rms_norm", {"eps": 0.0}, {"x": x}, {"y": "f32"}), EVERY[:2])
    made, make = list[Numerics](), truth.op.screens

    def counted(contracts: Sequence[Numerics], structured: bool) -> Mapping[Numerics, Screens]:
        made.extend(contracts)
        return make(contracts, structured)

    monkeypatch.setattr(truth.op, "screens", counted)
    received = truth.receive({"y": rms_norm(x, Numerics(), 0.0, "f32")[0]})
    for numerics in (EVERY[2], EVERY[0], EVERY[1], EVERY[3], EVERY[0]):
        assert truth.check(numerics, received)[0].result == "pass"
    assert made == [EVERY[2], EVERY[0], EVERY[1], EVERY[3]]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_contracts_that_form_the_weight_otherwise_share_no_exact_values(order: tuple[int, int]) -> None:
    rng = np.random.default_rng(14)
    x, weight = store(rng.standard_normal((2, 64)), "f32"), store(rng.uniform(0.01, 0.1, 64), "bf16")
    problem = Problem("rms_norm", {"eps": 0.0, "weight_offset": 1.0}, {"x": x, "weight": weight}, {"y": "f32"})
    contracts = [(Numerics(), Numerics(offset="weight"))[place] for place in order]
    truth = Truth(problem, contracts)
    for numerics in contracts:
        for other in contracts:
            got = rms_norm(x, numerics, 0.0, "f32", weight, 1.0)[0].astype(np.float64)
            assert (screened(truth, "y", other, got) is not None) == (numerics == other)
