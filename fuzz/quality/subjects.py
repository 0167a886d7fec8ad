"""What is measured: problems of any op, drawn as the search draws them, the usual contract, and simulated kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

import numpy as np

from fuzz.base.draw import Draw, Part
from fuzz.base.errors import UsageError
from fuzz.base.stream import Dice, Stream
from fuzz.generate.menus import LIKE_FIRST, menu_of, menus_of
from fuzz.generate.realise import realise
from fuzz.judge.values import problem_of
from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, SINGLE
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Inputs
from oracles.formula.made import grown
from oracles.formula.neighbours import neighbours
from oracles.formula.simulated.simulation import Simulated
from oracles.formula.tiers.problem import FormulaProblem
from oracles.formula.trace import Node, Trace
from oracles.op import Op
from oracles.operand import OUTER, Operand
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.summation import Lanes

Returned = Mapping[str, F64]
"""Outputs in their dtypes, as canonical arrays of float64."""
PLAIN = "normal"
"""The recipe of inputs, where theirs has it."""
_LANES = Lanes(16, 4, "predicated")
_ABSENT_ONE_IN = 4
"""What may be absent is so in one problem of this many."""
_FEW = 4
"""The extent of a dimension that is neither that of the rows nor the first one."""


def chosen(pattern: str) -> list[Op]:
    """The ops whose names match. Raises UsageError where there is none."""
    found = [op for name, op in OPS.items() if fnmatchcase(name, pattern)]
    if not found:
        raise UsageError(f"--op {pattern}: no such op; there are {', '.join(OPS)}")
    return found


def usual(op: Op, dtype: str) -> Contract:
    """The contract of a plain kernel with vectors: short chains of additions, float32 but for float64."""
    dims = {key: None for each in neighbours(op, Contract()) for key in each.contract.sums}
    compute = DOUBLE.name if dtype == DOUBLE.name else SINGLE.name
    return Contract(compute, sums=dict.fromkeys((op.row, OUTER, *dims), _LANES))


def plain(op: Op, dtype: str, rows: int, n: int, seed: int, recipe: str = PLAIN) -> Problem:
    """Normal rows, or of another recipe of the first input: all inputs, and the outputs that every suite looks at. No
    parameter has its neutral value."""
    dtypes = _dtypes(op, dtype)
    parts = [Part(each.name, dtypes[each.name], recipe=_recipe(op, each, recipe)) for each in op.inputs]
    parts += [Part(each.name, dtypes[each.name]) for each in op.outputs if _is_looked_at(op, each)]
    params = {each.name: next(value for value in each.values if value != each.neutral) for each in op.parameters}
    return problem_of(realise(_draw(op, n, rows, params, seed, parts)))


def drawn(op: Op, dtype: str, rows: int, n: int, seed: int) -> Problem:
    """Any recipes, parameters and operands."""
    menus, dtypes, dice = menus_of(op), _dtypes(op, dtype), Dice(Stream(seed).child("subject"))
    there = {each.name for each in op.operands if not each.optional or not dice.one_in(_ABSENT_ONE_IN)}
    there = {name for name in there if op.operand(name).only_with in {"", *there}}
    parts = [
        Part(each.name, dtypes[each.name], recipe=dice.pick(menus[each.name].names) if op.is_input(each.name) else "")
        for each in op.operands
        if each.name in there
    ]
    params = {each.name: dice.pick(each.values) for each in op.parameters if each.only_with in {"", *there}}
    return problem_of(realise(_draw(op, n, rows, params, seed, parts)))


def _draw(op: Op, n: int, rows: int, params: Mapping[str, float], seed: int, parts: Sequence[Part]) -> Draw:
    """Rows of n elements, so many along the first dimension; a few places along every other one that is not fixed."""
    first, *others = [dim for dim in op.inputs[0].axes if dim != op.row] or [""]
    sizes = {**dict.fromkeys((*others, *op.further), _FEW), first: rows, op.row: n, **op.fixed}
    sizes |= grown(op.made, {dim: sizes[dim] for dim in op.named}, op.fixed, op.least)
    outer = tuple(sizes[dim] for dim in op.inputs[0].axes if dim != op.row)
    return Draw(op.name, sizes[op.row], outer, params, seed, tuple(parts), extents={d: sizes[d] for d in op.further})


def simulated(
    problem: FormulaProblem,
    contract: Contract,
    seed: int,
    trace: Trace | None = None,
    changed: Mapping[Node, Callable[[F64], F64]] = MappingProxyType({}),
) -> Returned:
    """What a simulated kernel returns; of the formula itself where no other graph is given. See `Simulated.changed`."""
    return dict(_outputs(problem, kernel_of(problem, contract, seed, trace, changed)))


def kernel_of(
    problem: FormulaProblem,
    contract: Contract,
    seed: int,
    trace: Trace | None = None,
    changed: Mapping[Node, Callable[[F64], F64]] = MappingProxyType({}),
) -> Simulated:
    """Return that kernel."""
    settled = problem.settled(contract)
    inputs = Inputs(trace or problem.read(settled)[0].trace, problem.tensors, problem.parameters)
    return Simulated(inputs, settled, np.random.default_rng(seed), changed=changed)


def _outputs(problem: FormulaProblem, kernel: Simulated) -> Iterator[tuple[str, F64]]:
    for name, dtype in problem.problem.outputs.items():
        values = kernel.output(name, dtype)
        yield name, problem.arranged(name, problem.returned(name, values))


def _is_looked_at(op: Op, output: Operand) -> bool:
    return not output.optional or output.axes == (op.row,)


def _recipe(op: Op, operand: Operand, wished: str) -> str:
    """What such values often are, where they are never normal; with another recipe of the first input all are like it
    that may be."""
    often = menu_of(operand).often
    if wished != PLAIN:
        known = menus_of(op)[operand.name].recipes
        like = wished if operand.name == op.main else LIKE_FIRST
        if like in known:
            return like
    return PLAIN if PLAIN in often else often[0]


def _dtypes(op: Op, main: str) -> Mapping[str, str]:
    found = dict[str, str]()
    for each in op.operands:
        found[each.name] = found.get(each.dtype, each.dtype) or main
    return found
