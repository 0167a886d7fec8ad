"""Screens compared with the enclosures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracles import Lanes, Numerics, Pairwise
from oracles.doubledouble import F64
from oracles.enclosure import Enclosure, Mask, Worst, compare, passes, worst_pass
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.screen import Received
from oracles.tests.common.adversary import RECIPES, probes
from oracles.tests.common.problems import CONTRACTS, forward
from oracles.truth import Truth

FORWARD = [("rms_norm", "f32"), ("rms_norm", "bf16"), ("fused_add_rms_norm", "f16"), ("fused_add_rms_norm", "f64")]


SATURATING = Numerics(cast="llama", saturate=True)
ALMOST_PLAIN = (
    Numerics(sum_range="exact"),
    Numerics(eps="input"),
    Numerics(residual="unrounded"),
    Numerics(offset="weight"),
)
EVERY = tuple(
    replace(base, summation=summation)
    for base in (*CONTRACTS.values(), SATURATING, replace(SATURATING, cast="gemma"), *ALMOST_PLAIN)
    for summation in (base.summation, Lanes(2, 2, "scalar"), Pairwise(2))
)
"""contracts whose screens are made together; some differ in their summation alone."""


def screened(truth: Truth, name: str, numerics: Numerics, got: F64) -> Worst | None:
    return truth._screened(name, numerics, Received({name: got}))


def contradiction(truth: Truth, name: str, numerics: Numerics, enclosure: Enclosure, got: F64) -> str | None:
    """What is wrong with the screen's pass of an output, if it passes it."""
    worst = screened(truth, name, numerics, got)
    if worst is None:
        return None
    comparison = compare(enclosure, got)
    for index in map(tuple, np.argwhere(~passes_each(enclosure, got))):
        bounds = truth.bounds(numerics, name, index, truth.problem.structured)
        if comparison.failing[index] or bounds is None or not conforms(bounds, float(got[index])):
            return f"{name}{index} = {float(got[index]).hex()} does not conform"
    if not passes(enclosure, got):
        return None  # NaN where it must be, or the fast tier is unsure: there is no ratio to compare
    known = worst_pass(enclosure, got)
    if worst.ratio != pytest.approx(known.ratio, rel=1e-6, abs=1e-9):
        return f"{name}: ratio {worst.ratio!r}, {known.ratio!r} by the enclosures"
    return None


def passes_each(enclosure: Enclosure, got: F64) -> Mask:
    values = enclosure.values(got)
    found: Mask = (values >= enclosure.inner[0]) & (values <= enclosure.inner[1])
    return found


def checked(problem: Problem, numerics: Numerics, rng: np.random.Generator) -> int:
    """Outputs on which the screen of one contract among many was compared with the enclosures."""
    truth, count = Truth(problem, EVERY), 0
    for name, enclosure in truth.enclosures(numerics, problem.structured).items():
        for got in probes(enclosure, rng):
            screened(truth, name, EVERY[-1], got)  # who is asked about first has the first place
            wrong = contradiction(truth, name, numerics, enclosure, got)
            assert wrong is None, f"{numerics}: {wrong} {problem}"[:900]
            count += screened(truth, name, numerics, got) is not None
    return count


def screens_agree(op: str, recipe: str, dtype: str, step: int) -> None:
    """Under one contract of so many, from another first one for each recipe."""
    rng = np.random.default_rng(11)
    first = len(op) + RECIPES.index(recipe)
    for number, problem in enumerate(forward(op, recipe, dtype, -(-len(EVERY) // step), 9)):
        checked(problem, EVERY[(step * number + first) % len(EVERY)], rng)
