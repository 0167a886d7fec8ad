"""What is measured: problems of any op, drawn as the search draws them, and simulated kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType

import numpy as np

from fuzz.campaign.tolerance import dtypes_of, ordinary_draw
from fuzz.core.base.draw import Part
from fuzz.core.base.errors import UsageError
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.menus import menus_of
from fuzz.core.generate.realise import realise
from fuzz.core.judge.values import problem_of
from oracles.doubledouble import F64
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Inputs
from oracles.formula.trace import Node, Trace
from oracles.op import Extents, Op
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.simulated.simulation import Simulated
from oracles.tiers.problem import FormulaProblem

Returned = Mapping[str, F64]
"""Outputs in their dtypes, as canonical arrays of float64."""
_ABSENT_ONE_IN = 4
"""An optional operand is absent in one problem of this many."""


def chosen(pattern: str) -> list[Op]:
    """Return the ops whose names match. Raises UsageError where there are none."""
    found = [op for name, op in OPS.items() if fnmatchcase(name, pattern)]
    if not found:
        raise UsageError(f"--op {pattern}: no such op; there are {', '.join(OPS)}")
    return found


def drawn(op: Op, dtype: str, rows: int, n: int, seed: int, extents: Extents = MappingProxyType({})) -> Problem:
    """Return a problem with any recipes, parameters and operands."""
    menus, dtypes, dice = menus_of(op), dtypes_of(op, dtype), Dice(Stream(seed).child("subject"))
    there = {each.name for each in op.operands if not each.optional or not dice.one_in(_ABSENT_ONE_IN)}
    there = {name for name in there if op.operand(name).only_with in {"", *there}}
    parts = [
        Part(each.name, dtypes[each.name], recipe=dice.pick(menus[each.name].names) if op.is_input(each.name) else "")
        for each in op.operands
        if each.name in there
    ]
    params = {each.name: dice.pick(each.values) for each in op.parameters if each.only_with in {"", *there}}
    return problem_of(realise(ordinary_draw(op, n, rows, params, seed, parts, extents)))


def simulated(
    problem: FormulaProblem,
    contract: Contract,
    seed: int,
    trace: Trace | None = None,
    changed: Mapping[Node, Callable[[F64], F64]] = MappingProxyType({}),
) -> Returned:
    """Return the outputs of a simulated kernel, of the formula itself where no other graph is given. See
    `Simulated.changed`."""
    settled = problem.settled(contract)
    inputs = Inputs(trace or problem.formulas(settled)[0].trace, problem.tensors, problem.parameters)
    kernel = Simulated(inputs, settled, np.random.default_rng(seed), changed=changed)
    return {
        name: problem.arranged(name, problem.returned(name, kernel.output(name, dtype)))
        for name, dtype in problem.problem.outputs.items()
    }
