"""Ordinary inputs of any op: normal rows, and the contract of a plain kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fuzz.core.base.draw import Draw, Part
from fuzz.core.generate.menus import LIKE_FIRST, menu_of, menus_of
from fuzz.core.generate.realise import realise
from fuzz.core.judge.values import problem_of
from oracles.dtypes import DOUBLE, SINGLE
from oracles.formula.contract import Contract
from oracles.formula.made import grown
from oracles.neighbours import neighbours
from oracles.op import Extents, Op
from oracles.operand import OUTER, Operand
from oracles.problem import Problem
from oracles.summation import Lanes, Summation

PLAIN = "normal"
"""The recipe of inputs, where theirs has it."""
LANES = Lanes(16, 4, "predicated")
_FEW = 4
"""The extent of a dimension that is neither that of the rows nor the first one."""


def usual(op: Op, dtype: str, order: Summation = LANES) -> Contract:
    """The contract of a plain kernel, with vectors unless another order is given: short chains of additions, float32
    but for float64."""
    dims = {key: None for each in neighbours(op, Contract()) for key in each.contract.sums}
    compute = DOUBLE.name if dtype == DOUBLE.name else SINGLE.name
    return Contract(compute, sums=dict.fromkeys((op.row, OUTER, *dims), order))


def plain(
    op: Op, dtype: str, rows: int, n: int, seed: int, recipe: str = PLAIN, extents: Extents = MappingProxyType({})
) -> Problem:
    """Normal rows, or of another recipe of the first input: all inputs, and the outputs that every suite looks at. No
    parameter has its neutral value."""
    dtypes = dtypes_of(op, dtype)
    parts = [Part(each.name, dtypes[each.name], recipe=_recipe(op, each, recipe)) for each in op.inputs]
    parts += [Part(each.name, dtypes[each.name]) for each in op.outputs if _is_looked_at(op, each)]
    params = {each.name: next(value for value in each.values if value != each.neutral) for each in op.parameters}
    return problem_of(realise(ordinary_draw(op, n, rows, params, seed, parts, extents)))


def ordinary_draw(
    op: Op, n: int, rows: int, params: Mapping[str, float], seed: int, parts: Sequence[Part],
    extents: Extents = MappingProxyType({}),
) -> Draw:  # fmt: skip
    """Rows of n elements, so many along the first dimension; along every other one that is not fixed as many places as
    are said, or else a few."""
    first, *others = [dim for dim in op.inputs[0].axes if dim != op.row] or [""]
    sizes = {**dict.fromkeys((*others, *op.further), _FEW), first: rows, op.row: n, **extents, **op.fixed}
    sizes |= grown(op.made, {dim: sizes[dim] for dim in op.named}, op.fixed, op.least)
    outer = tuple(sizes[dim] for dim in op.inputs[0].axes if dim != op.row)
    return Draw(op.name, sizes[op.row], outer, params, seed, tuple(parts), extents={d: sizes[d] for d in op.further})


def dtypes_of(op: Op, main: str) -> Mapping[str, str]:
    found = dict[str, str]()
    for each in op.operands:
        found[each.name] = found.get(each.dtype, each.dtype) or main
    return found


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
