"""The space of an op: the coverage labels that a search should visit, as far as kernels take such cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import CACHE_LINE
from fuzz.core.base.feature import Answer, Feature, Label
from fuzz.core.generate.aliasing import memory_labels
from fuzz.core.generate.capabilities import dtype_pairs, may_share, presence
from fuzz.core.generate.coverage import POSITIONS, STEP, TILES, named, together
from fuzz.core.generate.dims import common, ranks_of, some_extents
from fuzz.core.generate.drawing import STACKS, layouts_of
from fuzz.core.generate.menus import PLACED, menus_of
from fuzz.core.generate.sketch import (
    BLOCKS,
    LARGEST_CASE,
    MANY_ROWS,
    ROWS,
    SHORT,
    SWEPT_ROWS,
    THRESHOLDS,
    N,
    fitting,
    free_parameters,
)
from fuzz.core.generate.tiles import most_of_tiles
from oracles.dtypes import ITEMSIZE
from oracles.operand import OUTER, Operand, Parameter
from oracles.ops import OPS, remembered

_ROWS = (0, 1, 2, 17, *MANY_ROWS)

_SIZES = (*range(18), 31, 32, 33, 63, 64, 65, 127, 128, 129)
"""The extents that each of several named dimensions should have."""

Space = Mapping[Feature, tuple[Answer, ...]]
"""The labels that cases should visit: for each feature, its answers."""


def space_of(capabilities: Iterable[Capability]) -> Space:
    """Return all labels that cases for these capabilities can visit, by feature."""
    kinds: dict[Feature, dict[Answer, None]] = {}
    for capability in capabilities:
        for kind, value in _labels(capability):
            kinds.setdefault(kind, {})[value] = None
    return {kind: tuple(values) for kind, values in kinds.items()}


@remembered(256)
def _labels(capability: Capability) -> tuple[Label, ...]:
    return tuple(_labels_in_order(capability))


def _labels_in_order(capability: Capability) -> Iterator[Label]:
    able, op = capability.able, OPS[capability.op]
    yield from ((Feature("dtype"), dtype) for dtype in able.dtypes)
    for operand in op.operands:
        if operand.optional:
            yield from ((Feature("presence", operand.name), value) for value in presence(capability, operand))
    yield from ((N, n) for n in (*range(SWEPT_ROWS + 1), *THRESHOLDS) if _takes_n(capability, n))
    for block in BLOCKS:
        yield from ((Feature("tail", operand=block), residue) for residue in _tails(capability, block))
    most = LARGEST_CASE // max(SHORT, capability.step(op.row))
    if {*op.inputs[0].axes} - {op.row} and not {*op.inner[:-1]} & {*op.fixed}:
        yield from ((ROWS, rows) for rows in _ROWS if rows <= max(most, 17) and (rows or capability.empty))
    yield from _of_sizes(capability)
    for rank in ranks_of(op):
        axes = range(0 if able.axis == "any" else rank - 1, rank)
        yield from ((Feature("axis"), (axis, rank)) for axis in axes)
    for parameter in op.parameters:
        yield from ((Feature("parameter", parameter.name), repr(value)) for value in _values_of(capability, parameter))
    yield Feature("alias"), "none"
    for output, source in op.aliases:
        if (output, source) in able.aliases and may_share(capability, output, source):
            yield Feature("alias"), (output, source)
    yield from ((Feature("memory"), label) for label in memory_labels(capability))
    for operand in op.operands:
        if "yes" in presence(capability, operand):
            yield from _of_tensor(capability, operand)
    where_placed = [where for where in POSITIONS if where != "tail" or any(_tails(capability, 64))]
    placed = [name for name in PLACED if name in menus_of(op)[op.main].recipes]
    yield from ((Feature("recipe", op.main), (name, where)) for name in placed for where in where_placed)


def _of_sizes(capability: Capability) -> Iterator[Label]:
    """Yield the labels of named dimensions: their extents, except for n; pairs of equal extents; and whole tiles."""
    op = OPS[capability.op]
    free = [dim for dim in op.named if dim not in op.fixed]
    for dim in (dim for dim in free if dim != op.row):
        yield from ((Feature("extent", dim), size) for size in _SIZES if capability.takes(dim, size))
        rests = {size % STEP for size in some_extents(capability, dim) if size > STEP}
        yield from ((Feature("remainder", dim, operand=STEP), rest) for rest in sorted(rests))
    yield from ((Feature("equal extents"), (a, b)) for a, b in combinations(free, 2) if common(capability, (a, b)))
    for tile in TILES:
        sizes = {dim: fitting(capability, dim, tile) for dim in dict.fromkeys((*free, *op.tiled))}
        whole = [dim for dim, size in sizes.items() if size >= tile]
        yield from ((Feature("tile", operand=tile), named(op, dim)) for dim in whole)
        work = op.work({**{dim: sizes[dim] for dim in op.tiled}, **op.fixed})
        if {*op.tiled} <= {*whole} and len(op.tiled) > 1 and work <= most_of_tiles(op):
            yield Feature("tile", operand=tile), together(op)


def _values_of(capability: Capability, parameter: Parameter) -> tuple[float, ...]:
    """Return the values of a parameter that cases for a capability may have."""
    idle = parameter.only_with and presence(capability, OPS[capability.op].operand(parameter.only_with)) == ("no",)
    neutral = () if parameter.neutral is None else (parameter.neutral,)
    if parameter not in free_parameters(capability) or (idle and neutral):
        return neutral
    return tuple(dict.fromkeys((*neutral, *parameter.values)))


def _tails(capability: Capability, block: int) -> tuple[int, ...]:
    """Return the tails after whole blocks of `block` elements that rows longer than a block may have."""
    row = OPS[capability.op].row
    step = capability.step(row)
    fixed = OPS[capability.op].fixed.get(row)
    if fixed is not None:
        return (fixed % block,) if fixed > block else ()
    first = -(-(block + 1) // step) * step
    # the remainders repeat after as many steps as the block is long
    lengths = range(first, first + step * block, step)
    return tuple(sorted({n % block for n in lengths if capability.takes(row, n)}))


def _of_tensor(capability: Capability, operand: Operand) -> Iterator[Label]:
    op, name = OPS[capability.op], operand.name
    yield from ((Feature("layout", name), layout) for layout in layouts_of(capability, name))
    pairs = dtype_pairs(capability, name)
    if name != op.main:
        yield from ((Feature("dtype", name), (dtype, op.main, main)) for dtype, main in pairs)
    step = capability.able.alignment if op.has_rows(name) else 1
    for dtype in dict.fromkeys(dtype for dtype, _ in pairs):
        bytes_ = range(0, CACHE_LINE, max(ITEMSIZE[dtype], step))
        yield from ((Feature("alignment", name, operand=dtype), byte) for byte in bytes_)
    if name in capability.able.stacked:
        yield from ((Feature("stack", name), stack) for stack in STACKS)
    if op.is_input(name):
        yield from ((Feature("recipe", name), recipe) for recipe in menus_of(op)[name].names)


def _takes_n(capability: Capability, n: int) -> bool:
    op = OPS[capability.op]
    of_rows = {operand.name for operand in op.outputs if operand.axes == (OUTER,)}
    if n == 0 and of_rows & {*capability.able.needs}:
        return False  # no contract defines the mean of no elements
    return capability.takes(op.row, n)
