"""Both tiers on what may be returned, element by element."""

from __future__ import annotations

import numpy as np

from oracles import Numerics
from oracles.enclosure import compare
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.tests.common.adversary import probes
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
