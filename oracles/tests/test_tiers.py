"""The two tiers never contradict each other."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from oracles import Lanes, Numerics, Sequential
from oracles.dtypes import form
from oracles.enclosure import compare
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.tests.adversary import RECIPES, probes, row
from oracles.truth import Truth

CONTRACTS = (
    Numerics(),
    Numerics(summation=Lanes(16, 4, "scalar"), mean="reciprocal", rsqrt_ulp=2.0),
    Numerics(sum_range="exact"),
    Numerics(summation=Lanes(4, 4, "predicated"), accumulate="f64"),
)


def problems(recipe: str, dtype: str, count: int, limit: int) -> Iterator[Problem]:
    rng = np.random.default_rng(zlib.crc32(f"{recipe} {dtype}".encode()))
    for number in range(count):
        n = int(rng.integers(1, limit))
        x = np.stack([row(recipe, n, dtype, rng) for _ in range(2)])
        eps = [0.0, 1e-5, 1e-12, 100.0][number % 4]
        yield Problem(
            "rms_norm",
            {"eps": float(np.float32(eps))},
            {"x": x},
            {"y": dtype, "rstd": "f32"},
            structured=recipe in ("constant", "spike") or number % 3 == 0,
        )


def disagreements(problem: Problem, numerics: Numerics, rng: np.random.Generator) -> tuple[int, int, list[str]]:
    """Elements compared, elements that the fast tier left open, and contradictions."""
    truth = Truth(problem)
    compared = unsure = 0
    wrong = []
    for name, enclosure in truth.enclosures(numerics, problem.structured).items():
        bounds = {
            index: truth.bounds(numerics, name, index, problem.structured) for index in np.ndindex(enclosure.centre.shape)
        }
        for got in probes(enclosure, rng):
            comparison = compare(enclosure, got)
            for index, expected in bounds.items():
                compared += 1
                assert expected is not None
                if comparison.unsure[index]:
                    unsure += 1
                elif conforms(expected, float(got[index])) == comparison.failing[index]:
                    wrong.append(f"{name}{index} {float(got[index]).hex()} {expected.decision} {problem}")
    return compared, unsure, wrong


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_tiers_agree(recipe: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    for number, problem in enumerate(problems(recipe, dtype, 8, 12)):
        _, _, wrong = disagreements(problem, CONTRACTS[number % len(CONTRACTS)], rng)
        assert not wrong
