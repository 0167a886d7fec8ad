"""Inputs as tests usually have them: contiguous tensors of round shapes, whose values are normal or uniform."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fuzz.base.capability import Capabilities
from fuzz.base.case import Case
from fuzz.base.draw import GIVEN, Draw, Part
from fuzz.base.dtypes import quantise
from fuzz.base.errors import UsageError
from fuzz.base.kernel import Kernel
from fuzz.base.stream import Reals, Stream
from fuzz.generate.given import given_rows
from fuzz.generate.menus import LIKE_FIRST, menu_of
from fuzz.generate.realise import realise
from fuzz.uses.tolerance.plain import PLAIN, dtypes_of, ordinary_draw
from oracles.declared import AXIS
from oracles.op import Extents, Op
from oracles.operand import OUTER, Operand
from oracles.ops import OPS

Fill = Callable[[str, tuple[int, ...]], Reals]
"""The values of an input, by its name and shape."""
ROWS, N = 64, 1024
_SIDE = 64
"""The usual extent of a matrix along both of its dimensions, and `_BATCH` that of what is before them."""
_BATCH = 2
_MOST_WORK = 1 << 22
"""The most terms of a step of a formula: the oracle takes 0.1 s for them."""


@dataclass(frozen=True)
class Setup:
    """What a case has besides values."""

    dtype: str
    """The dtype of the first input."""
    whole: bool
    """Whether all is there that the kernel takes: optional tensors, and parameters that are not neutral."""
    extents: Extents = field(default_factory=dict)
    """The extents that are not the usual ones."""


def setups(kernel: Kernel) -> tuple[Setup, ...]:
    """The ones of a usual test: in each dtype that the kernel takes all that it takes, and as little as may be."""
    return tuple(Setup(dtype, whole) for dtype in kernel.able.dtypes for whole in (True, False))


def case_of(kernel: Kernel, setup: Setup, fill: Fill, seed: int) -> Case | None:
    """The case; None where the kernel does not take it, or there is none."""
    op = OPS[kernel.op]
    try:
        draw = _draw(op, kernel.able, setup, seed)
        filled = [_filled(op, draw, part, fill) for part in draw.parts if op.is_input(part.name)]
        case = realise(draw.with_parts(*filled))
    except UsageError:
        return None
    return case if kernel.capability.accepts(case) else None


def normal(seed: int) -> Fill:
    """Standard normal values, as of torch.randn."""
    return lambda name, shape: Stream(seed).child(name).normal(math.prod(shape)).reshape(shape)


def uniform(seed: int) -> Fill:
    """Uniform values from 0 to 1, as of torch.rand."""
    return lambda name, shape: Stream(seed).child(name).uniform(math.prod(shape)).reshape(shape)


def extents_of(op: Op) -> Extents:
    """The usual extents of the named dimensions, and of those without a name: 64 rows of 1,024 elements, or matrices of
    64 x 64; smaller ones where the formula has too many terms."""
    if op.named == (op.row,) and not op.fixed:
        return {OUTER: ROWS, op.row: N}
    sides = {dim for each in op.inputs if not each.optional for dim in each.axes[-2:]} - {OUTER}
    side, found = _SIDE, dict[str, int]()
    while side > 1:
        found = {dim: side if dim in sides else _BATCH for dim in (OUTER, *op.named)} | {**op.fixed}
        if op.work(found) <= _MOST_WORK:
            break
        side //= 2
    return found


def free(operand: Operand) -> bool:
    """Whether an input may have any values: it is no place, code, probability or what another one says."""
    often = menu_of(operand).often
    return PLAIN in often or LIKE_FIRST in often


def _draw(op: Op, able: Capabilities, setup: Setup, seed: int) -> Draw:
    extents = {**extents_of(op), **setup.extents}
    for dim, size in extents.items():
        step = able.multiple_of.get(dim, 1)
        extents[dim] = max(step, min(size, able.max.get(dim, size)) // step * step)
    wanted = {*able.needs, *(able.takes or ())} if setup.whole else {*able.needs}
    there = {each.name for each in op.operands if not each.optional or each.name in wanted}
    there = {name for name in there if op.operand(name).only_with in {"", *there}}
    dtypes = dtypes_of(op, setup.dtype)
    parts = [Part(each.name, dtypes[each.name], recipe=_recipe(op, each)) for each in op.operands if each.name in there]
    first = next((dim for dim in op.inputs[0].axes if dim != op.row), "")
    return ordinary_draw(
        op, extents[op.row], extents.get(first, 1), _parameters(op, able, there, setup), seed, parts, extents
    )  # fmt: skip


def _recipe(op: Op, operand: Operand) -> str:
    return "" if not op.is_input(operand.name) else PLAIN if free(operand) else menu_of(operand).often[0]


def _parameters(op: Op, able: Capabilities, there: set[str], setup: Setup) -> Mapping[str, float]:
    return dict(_chosen(op, able, there, setup))


def _chosen(op: Op, able: Capabilities, there: set[str], setup: Setup) -> Iterator[tuple[str, float]]:
    yield AXIS, op.inputs[0].axes.index(op.row)
    for each in op.parameters:
        if each.neutral is None:
            yield each.name, each.values[0]
        elif setup.whole and each.name in (able.params or ()) and each.only_with in {"", *there}:
            yield each.name, next(value for value in each.values if value != each.neutral)


def _filled(op: Op, draw: Draw, part: Part, fill: Fill) -> Part:
    if not free(op.operand(part.name)):
        return part
    shape = draw.shape(part.name)
    values = quantise(fill(part.name, shape), part.dtype)
    return replace(part, recipe=GIVEN, given=given_rows(values.reshape(draw.block(part.name))))
