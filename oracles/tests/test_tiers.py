"""The two tiers never contradict each other."""

from __future__ import annotations

import numpy as np
import pytest

from oracles import Numerics
from oracles.enclosure import compare
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.tests.adversary import RECIPES, probes
from oracles.tests.problems import CONTRACTS, backward, forward
from oracles.truth import Truth


def disagreements(problem: Problem, numerics: Numerics, rng: np.random.Generator) -> tuple[int, int, list[str]]:
    """Elements compared, elements that the fast tier left open, and contradictions."""
    truth = Truth(problem)
    compared = unsure = 0
    wrong = []
    for name, enclosure in truth.enclosures(numerics, problem.structured).items():
        shape = enclosure.inner[0].shape
        bounds = {index: truth.bounds(numerics, name, index, problem.structured) for index in np.ndindex(shape)}
        for got in probes(enclosure, rng):
            comparison = compare(enclosure, got)
            for index, expected in bounds.items():
                compared += 1
                assert expected is not None
                if comparison.unsure[index]:
                    unsure += 1
                elif conforms(expected, float(got[index])) == comparison.failing[index]:
                    value, low, high = float(got[index]), enclosure.inner[0][index], enclosure.inner[1][index]
                    wrong.append(f"{name}{index} {value.hex()} not in {low, high}: {expected.decision} {problem}"[:600])
    return compared, unsure, wrong


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("op", ["rms_norm", "fused_add_rms_norm"])
def test_tiers_agree_forward(op: str, recipe: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    names = list(CONTRACTS)
    for number, problem in enumerate(forward(op, recipe, dtype, 11, 7)):
        numerics = CONTRACTS[names[number % len(names)]]
        _, _, wrong = disagreements(problem, numerics, rng)
        assert not wrong, f"{names[number % len(names)]}: {wrong[0]}"


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("op", ["rms_norm_backward", "fused_add_rms_norm_backward"])
def test_tiers_agree_backward(op: str, recipe: str, dtype: str) -> None:
    rng = np.random.default_rng(2)
    names = list(CONTRACTS)
    for number, problem in enumerate(backward(op, recipe, dtype, 11, 6)):
        numerics = CONTRACTS[names[number % len(names)]]
        _, _, wrong = disagreements(problem, numerics, rng)
        assert not wrong, f"{names[number % len(names)]}: {wrong[0]}"
