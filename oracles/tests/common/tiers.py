"""Both tiers on what may be returned, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from oracles.doubledouble import F64
from oracles.enclosure import Mask, compare
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.tests.common import judged
from oracles.tests.common.adversary import probes
from oracles.tests.common.formulas import HARD
from oracles.tests.common.problems import CONTRACTS, backward, contract_of, forward
from oracles.truth import Truth


def disagreements(problem: Problem, contract: Contract, rng: np.random.Generator) -> tuple[int, int, list[str]]:
    """Elements compared, elements that the fast tier left open, and contradictions, those of the forms included that
    the precise tier has."""
    truth = Truth(problem)
    compared = unsure = 0
    wrong = []
    for name, enclosure in truth.enclosures(contract, problem.structured).items():
        shape = enclosure.inner[0].shape
        bounds = {index: truth.bounds(contract, name, index, problem.structured) for index in np.ndindex(shape)}
        once = bounds
        if truth.enclosures(contract, problem.structured, once=True)[name] is not enclosure:
            once = {index: truth.bounds(contract, name, index, problem.structured, once=True) for index in bounds}
        for got in probes(enclosure, rng):
            comparison, alone = compare(enclosure, got), decided(truth, contract, name, got)
            for index, expected in bounds.items():
                compared += 1
                assert expected is not None
                if comparison.unsure[index]:
                    unsure += 1
                elif conforms(expected, float(got[index])) == comparison.failing[index]:
                    value, low, high = float(got[index]), enclosure.inner[0][index], enclosure.inner[1][index]
                    wrong.append(f"{name}{index} {value.hex()} not in {low, high}: {expected.decision} {problem}"[:600])
            for index, allowed in once.items():
                assert allowed is not None
                right = conforms(allowed, float(got[index]))
                if alone[int(right)][index]:  # certainly conforms or fails, and does not
                    value = float(got[index])
                    wrong.append(f"{name}{index} {value.hex()} alone: {right}, {allowed.decision} {problem}"[:600])
    return compared, unsure, wrong


def decided(truth: Truth, contract: Contract, name: str, got: F64) -> tuple[Mask, Mask]:
    """Which elements certainly conform, and which certainly fail, by the forms of the precise tier."""
    conform, fail = np.zeros(got.shape, bool), np.zeros(got.shape, bool)
    for row in range(0 if truth.enclosures(contract, truth.problem.structured)[name].places else len(got)):
        found = truth.elements.decided(name, row, got, contract, truth.problem.structured)
        conform[found[0]], fail[found[0]] = found[1:]
    return conform, fail


FORWARD = [("rms_norm", "f32"), ("rms_norm", "f16"), ("fused_add_rms_norm", "f64"), ("fused_add_rms_norm", "bf16")]
BACKWARD = [(f"{op}_backward", dtype) for op, dtype in FORWARD]


def tiers_agree(op: str, recipe: str, dtype: str, count: int, first: int = 0) -> None:
    """On so many problems, under one contract after the other from the `first`."""
    gradient = op.endswith("backward")
    rng = np.random.default_rng(2 if gradient else 1)
    names = list(CONTRACTS)
    for number, problem in enumerate(
        (backward if gradient else forward)(op, recipe, dtype, count, 6 if gradient else 7)
    ):
        name = names[(number + first) % len(names)]
        _, _, wrong = disagreements(problem, contract_of(op, name), rng)
        assert not wrong, f"{name}: {wrong[0]}"


def tiers_agree_on_weights_that_are_not_finite(recipe: str, name: str, count: int) -> None:
    """Under the contract of that name. Of plain rows nothing is left open where the weight is not finite; elsewhere the
    end of what a point leaves, times the weight, may be a tie of the output's dtype."""
    rng = np.random.default_rng(4)
    for problem in forward("rms_norm", recipe, "f32", count, 9):
        length = problem.input("x").shape[1]
        weight = rng.choice([np.nan, np.inf, -np.inf, 0.0, 1.5, -2.0], length).astype(np.float32)
        broken = replace(problem, inputs={**problem.inputs, "weight": weight})
        _, _, wrong = disagreements(broken, CONTRACTS[name], rng)
        assert not wrong, wrong[0]
        if recipe == "normal" and name in ("plain", "llama"):
            found, wild = Truth(broken).enclosures(CONTRACTS[name], broken.structured)["y"], ~np.isfinite(weight)
            assert found.unsure is None
            for inner, outer in zip(found.inner, found.outer, strict=True):
                assert np.array_equal(inner[:, wild], outer[:, wild], equal_nan=True)


def formula_tiers_agree(ops: Sequence[Op], contracts: Sequence[Contract], count: int, seed: int) -> tuple[int, int]:
    """On so many problems of every hard kind, under one contract after the other: elements compared, and left open."""
    rng, compared, unsure = np.random.default_rng(seed), 0, 0
    for number, (_, op, kind) in enumerate(product(range(count), ops, HARD)):
        contract, n = contracts[number % len(contracts)], int(rng.integers(1, 9))
        dtype = "f64" if contract.compute == "f64" else ("f32", "f16", "bf16")[number % 3]
        out = ("", "", "e4m3fn", "bf16")[number % 4]
        of = judged.problem(op, kind, dtype, (2, n), rng, out=out, without=("bias", "scale", "")[number % 3 :][:1])
        found = disagreements(of, contract, rng)
        assert not found[2], f"{kind} {contract}: {found[2][0]}"
        compared, unsure = compared + found[0], unsure + found[1]
    return compared, unsure
