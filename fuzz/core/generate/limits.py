"""Extents at which kernels stop being right: next to the powers of two of buffers, blocks and indices, and next to
numbers in the kernel's source. A search visits each once, early, in a case that is otherwise as small as possible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import product

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case
from fuzz.core.base.draw import Draw
from fuzz.core.base.feature import Feature
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.dims import CHEAP_WORK, FEW_BATCHES, SMALL_WORK, USUAL_WORK, Decisions, fitted, has_rows_alone
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.layouts import further
from fuzz.core.generate.menus import menu_of
from fuzz.core.generate.realise import cases_of, laid
from fuzz.core.generate.sketch import first_recipes, fitting, simplest
from oracles.algorithm import traced
from oracles.dtypes import ITEMSIZE, SINGLE
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS, remembered

_FIRST, _LIMITS = 4097, (8193, 4096, 4095)
"""Lengths of rows. A kernel that is wrong from some length on is usually wrong at the first of these."""
_ROWS = 1025
"""The first extent tried for a counted dimension, in a case with few other elements. It is larger than the number of
threads of a block, and than the numbers to which bf16 can count."""
_FAR = 65537
"""The longest extent. The oracle needs seconds to judge a wrong result of it, but hundredths for a right one."""
_BOTH = 257
"""The extent of two dimensions whose product needs more than 16 bits."""
_ROWS_APART = 5
"""The number of rows that lie far apart, each some 2^29 elements from the next."""
_LATE = 64
"""The number of turns that come before cases with extents of `_FAR` or `_BOTH`, or with long counted dimensions. These
come late because kernels are called, or interpreted, for each element of a counted dimension."""
_MANY = 1024
"""The largest number in a source that is tried for a counted dimension."""
IN_TURN = 3
"""The number of cases at limits in each turn, until all limits have been drawn."""
_STEPS = 128
"""The number of longer extents that are tried if a kernel does not take an extent."""

_OF_SIZES = "uniform"
"""The recipe of every second case at a limit. Its rows differ in size, while normal rows are all alike."""
_OF_ONE_SIGN = "monotone"
"""The recipe of sums of `_FAR` terms. The sum of half of them, if of either sign, is
within what rounding may do to the whole."""

Limit = tuple[tuple[str, int], ...]
"""Dimensions with their extents: one dimension, or two at once."""


class Limits:
    """The limits of one capability, for kernels with the given numbers in their sources."""

    def __init__(self, capability: Capability, numbers: Sequence[int] = ()) -> None:
        self._capability = capability
        self._soon = tuple(dict.fromkeys(_soon(capability, numbers)))
        self._late = tuple(dict.fromkeys(_late(capability)))

    def draw(self, rank: int, place: int, dice: Dice) -> Draw | None:
        """Return the draw for a place of the turn after `rank` earlier ones for the capability; None if all are
        drawn."""
        limits, turns = (self._late, rank - _LATE) if rank >= _LATE else (self._soon, rank)
        at = turns * IN_TURN + place
        return _drawn(self._capability, dice, limits[at]) if place in range(IN_TURN) and at < len(limits) else None


def far_cases(capability: Capability, seed: int) -> list[Case]:
    """Return one case for each of the longest extents, and for the largest products of two extents."""
    op, dice = OPS[capability.op], Dice(Stream(seed).child("far"))
    limits = [*_taken(capability, [_FAR], [*_lengths(op), *_soon_counted(op)]), *_together(capability)]
    return cases_of([laid(_drawn(capability, dice, limit), 0, 1 + at) for at, limit in enumerate(limits)])


def apart_cases(capability: Capability, seed: int) -> list[Case]:
    """Return small cases in which an input has rows so far apart that the last is more than 2^31 elements from the
    first, each row less than that: all inputs of a case that have rows, or no case if there is none."""
    op, dice = OPS[capability.op], Dice(Stream(seed).child("apart"))
    outer = dict.fromkeys(each.axes[0] for each in op.inputs if len(each.axes) > 1)
    limit = tuple(pair for each in _taken(capability, [_ROWS_APART], [*outer]) for pair in each)
    [case] = cases_of([laid(_drawn(capability, dice, limit), 0)])
    inputs = {name: replace(each, layout=further(each.layout) or each.layout) for name, each in case.inputs.items()}
    if inputs == case.inputs:
        return []
    labels = (*case.origin.labels, (Feature("big"), "rows 2^31 apart"))
    return [replace(case, inputs=inputs, origin=replace(case.origin, labels=labels))]


def _soon(capability: Capability, numbers: Sequence[int]) -> Iterator[Limit]:
    """Yield the limits for early turns, the most telling first."""
    op = OPS[capability.op]
    lengths = _lengths(op)
    yield from _taken(capability, [_FIRST], lengths)
    yield from _taken(capability, [_ROWS], _soon_counted(op))
    yield from _own(capability, numbers)
    yield from _taken(capability, _LIMITS, lengths)
    yield from _own(capability, [number + more for more in (1, -1) for number in numbers])


def _own(capability: Capability, numbers: Sequence[int]) -> Iterator[Limit]:
    op = OPS[capability.op]
    yield from _taken(capability, numbers, _lengths(op), steps=1)
    yield from _taken(capability, [number for number in numbers if number <= _MANY], _counted(op), steps=1)


def _late(capability: Capability) -> Iterator[Limit]:
    """Yield the limits for late turns. Ops whose dimensions are only rows and n have other large cases: `THRESHOLDS` of
    `generate/sketch.py`, and `generate/big.py`."""
    op = OPS[capability.op]
    if not has_rows_alone(op):
        yield from _taken(capability, [_FAR], _lengths(op))
        yield from _taken(capability, [_FIRST, _FAR], _counted(op))
    yield from _together(capability)


def _together(capability: Capability) -> Iterator[Limit]:
    """Yield counted dimensions together with the length of rows, each with an extent of `_BOTH`."""
    op = OPS[capability.op]
    for dim in _counted(op) if op.row in _lengths(op) else ():
        both = tuple(pair for limit in _taken(capability, [_BOTH], [dim, op.row]) for pair in limit)
        if len(both) == 2 and op.work(dict(both)) <= CHEAP_WORK:
            yield both


def _lengths(op: Op) -> Sequence[str]:
    """Return the dimensions along which rows or sums lie, or none if the oracle calculates elements one by one."""
    if _scanned(op):
        return ()
    last = {each.axes[-1] for each in op.operands if each.axes}
    return [dim for dim in op.tiled if dim != OUTER and (dim in last or op.dimensions[dim].reduced)]


def _counted(op: Op) -> Sequence[str]:
    """Return all dimensions that are not among `_lengths`."""
    lengths = _lengths(op)
    return [dim for dim in ([OUTER] * (OUTER in op.inputs[0].axes) + [*op.named]) if dim not in lengths]


def _soon_counted(op: Op) -> Sequence[str]:
    """Return the counted dimensions along which the oracle calculates all elements at once."""
    return [dim for dim in _counted(op) if dim not in _scanned(op)]


@remembered(256)
def _scanned(op: Op) -> Set[str]:
    whole = traced(op, [*op.params, *(each.name for each in op.operands)])
    return {node.label for node in whole.nodes if node.kind == "scan"}


def _taken(capability: Capability, sizes: Iterable[int], dims: Sequence[str], steps: int = _STEPS) -> Sequence[Limit]:
    """Return each dimension with each extent, or with the nearest larger one that the kernel takes. Leave out an extent
    if none is near, or if the oracle would take long."""
    op, found = OPS[capability.op], list[Limit]()
    for size, dim in product(sizes, dims):
        near = (fitting(capability, dim, size + more) for more in range(steps))
        taken = next((each for each in near if capability.takes(dim, each)), None)
        if taken is not None and op.work({dim: taken}) <= CHEAP_WORK:
            found.append(((dim, taken),))
    return found


def _drawn(capability: Capability, dice: Dice, limit: Limit) -> Draw:
    """Return a plain case with these extents and few elements along all other dimensions. A long case has the widest
    dtype, since in a narrow one the oracle may have to check each element alone."""
    op, long = OPS[capability.op], math.prod(size for _, size in limit) > _LIMITS[0]
    rank, recipes = len(op.inner) + (OUTER in op.inputs[0].axes), first_recipes(op.name)
    plain = next((each for each in menu_of(op.inputs[0]).often if each in recipes), recipes[0])
    plain = _OF_SIZES if _OF_SIZES in recipes and dice.one_in(2) else plain
    if any(size >= _FAR and dim in op.dimensions and op.dimensions[dim].reduced for dim, size in limit):
        plain = _OF_ONE_SIGN if _OF_ONE_SIGN in menu_of(op.inputs[0]).recipes else plain
    base = replace(simplest(capability, dice), rank=rank, axis=rank - 1, recipe=plain)
    extents = Decisions(fitted(base), dice, USUAL_WORK if {dim for dim, _ in limit} & {*_lengths(op)} else SMALL_WORK)
    extents.keep(dict(limit))
    extents.draw(batches=FEW_BATCHES)
    widest = max(capability.able.dtypes, key=lambda dtype: (dtype == SINGLE.name, ITEMSIZE[dtype]))
    return draw_from(extents.sketch, {Feature("dtype", op.main): widest} if long else {}, dice)
