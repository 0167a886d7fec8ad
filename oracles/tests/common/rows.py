"""Whether a row is told the same by itself and among others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import head
from oracles.dtypes import form
from oracles.enclosure import Enclosure
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Inputs
from oracles.formula.trace import Formula, trace
from oracles.op import Op
from oracles.operand import OUTER
from oracles.problem import Problem
from oracles.summation import Lanes, Pairwise, Sequential
from oracles.tests.common.adversary import RECIPES, row, store
from oracles.tests.common.formulas import HARD
from oracles.tiers.conformance import Conformance
from oracles.tiers.problem import FormulaProblem
from oracles.tiers.union import Union

ROWS = 4
_FIELDS = ("centre", "below", "nan", "unjudged", "unsure", "zero", "zeros")
_NOTHING: Mapping[str, Any] = {"nan": 0, "unjudged": False, "unsure": False, "zero": False, "zeros": 0}
SAME = 2.0**-40


def joined_rows(op: Op, dtype: str, n: int, rng: np.random.Generator) -> tuple[FormulaProblem, Mapping[str, Any]]:
    """A problem of an op with outputs of its own rows only, and canonical tensors: rows of any kinds, hard for
    different reasons, with columns of their own."""
    there = {each.name for each in op.operands if not each.optional or rng.uniform() < 0.7}
    there -= {each.name for each in op.outputs if OUTER not in each.axes}
    there -= {each.name for each in op.operands if each.only_with not in {"", *there}}
    dtypes = dict[str, str]()
    for each in op.operands:
        dtypes[each.name] = dtypes.get(each.dtype, each.dtype) or dtype
    tensors = {each.name: _values(op, each.name, dtypes[each.name], n, rng) for each in op.inputs if each.name in there}
    given = {name: array[0] if name in op.columns else array for name, array in tensors.items()}
    outputs = {each.name: dtypes[each.name] for each in op.outputs if each.name in there}
    params = {p.name: p.values[rng.integers(len(p.values))] for p in op.parameters if p.only_with in {"", *there}}
    return FormulaProblem(Problem(op.name, params, given, outputs)), tensors


def _values(op: Op, name: str, dtype: str, n: int, rng: np.random.Generator) -> NDArray[Any]:
    if name in op.integers:
        places = rng.integers(0, n, ROWS)
        return np.where(rng.uniform(size=ROWS) < 0.2, op.operand(name).missing or 0, places).astype(dtype)
    if op.operand(name).axes == (OUTER,):
        return store(np.exp(rng.normal(size=ROWS) * 20) * (rng.uniform(size=ROWS) < 0.9), dtype)
    kinds = rng.permutation([*RECIPES, *HARD])[:ROWS]
    return np.stack(
        [
            row(k, n, dtype, rng) if k in RECIPES else store(HARD[k](rng.normal(size=n), form(dtype)), dtype)
            for k in kinds
        ]
    )


def differences(
    problem: FormulaProblem, contract: Contract, structured: bool, tensors: Mapping[str, NDArray[Any]]
) -> Iterator[str]:
    """What is said of a problem's rows by themselves, and otherwise among others."""
    contract = problem.settled(contract)
    found = (
        problem.conformance(contract, structured, {name: array[rows] for name, array in tensors.items()})
        for rows in _alone_and_all(ROWS)
    )
    return _differences(found, problem.problem.outputs)


def formula_differences(formula: Formula, contract: Contract, **tensors: NDArray[Any]) -> Iterator[str]:
    """The same of a formula of tensors with rows along n."""
    graph = trace(formula, dict.fromkeys(tensors, ("...", "n")))
    outputs = dict.fromkeys(graph.outputs, contract.compute)
    rows = _alone_and_all(len(next(iter(tensors.values()))))
    each = (Inputs(graph, {name: array[some] for name, array in tensors.items()}, {}) for some in rows)
    return _differences((Union([Conformance(inputs, contract, outputs, True)], tuple) for inputs in each), outputs)


def _alone_and_all(rows: int) -> Iterator[slice]:
    yield slice(None)
    yield from (slice(place, place + 1) for place in range(rows))


def _differences(found: Iterator[Conformance | Union], outputs: Iterable[str]) -> Iterator[str]:
    with np.errstate(all="ignore"):
        whole = next(found)
        for place, alone in enumerate(found):
            for output in outputs:
                for why in _of_output(alone.enclosure(output), whole.enclosure(output), place):
                    yield f"{output} in row {place}: {why}"


def _of_output(alone: Enclosure, whole: Enclosure, place: int) -> Iterator[str]:
    # Of what is not judged nothing else counts; no more does the sign of a zero where there is none.
    judged = ~_of(alone, "unjudged", 0)
    may_be_zero = (alone.outer[0][0] <= 0) & (alone.outer[1][0] >= 0) | _of(alone, "zero", 0)
    for name in _FIELDS:
        a, b = _of(alone, name, 0), _of(whole, name, place)
        wrong = ~np.isclose(a, b, rtol=SAME, atol=0, equal_nan=True)
        wrong &= True if name == "unjudged" else judged & may_be_zero if name == "zeros" else judged
        if wrong.any():
            yield f"{name} is {a[wrong][0]!r} by itself, {b[wrong][0]!r} among others"


def _of(enclosure: Enclosure, name: str, place: int) -> NDArray[Any]:
    values = getattr(enclosure, name)
    values = np.full(enclosure.below.shape, _NOTHING[name]) if values is None else head(values)
    return np.asarray(values[place])


def any_contract(problem: FormulaProblem, rng: np.random.Generator) -> Contract:
    """Any algorithms, dtypes, points and policies."""
    trace, ways = problem.plain.trace, problem.of_op.algorithms
    names = sorted({*trace.names.values()})
    points = sorted(trace.names.get(node.args[0], "") for node in trace.nodes if node.kind == "point")

    def one(of: Sequence[Any]) -> Any:
        return of[int(rng.integers(len(of)))]

    def some(of: Iterable[str], share: float) -> list[str]:
        return [each for each in of if each and rng.uniform() < share]

    return Contract(
        one(("f32", "f64", "f64", "input", "bf16", "f16")),
        dtypes={name: one(("f64", "f32", "bf16", "f16", "input")) for name in some(names, 0.15)},
        algorithm={name: one(("formula", *ways[name])) for name in some(ways, 0.5)},
        points={name: one(("bf16", "f16", "f32")) for name in some(points, 0.4)},
        sums={"n": one((Sequential(), Lanes(16, 4, "predicated"), Pairwise(4)))},
        mean=one(("divide", "reciprocal")),
        fused=one((True, False)),
        denormals=one(("preserve", "flush", "flush operands", "flush results")),
        nonfinite=one(("ieee", "ieee", "overflow", "unspecified")),
    )
