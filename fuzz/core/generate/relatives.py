"""Relatives of a draw, each with one property changed, for call sequences and for guidance. A call sequence is a case,
relatives that each differ from it in one property, and the case again, all run by one process. A kernel that caches
something by only a part of what describes a call, such as its shape, goes wrong as soon as another part changes. Two
cases that are drawn independently hardly ever agree in all but one property."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.draw import Draw, Part
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.dims import CHEAP_WORK
from fuzz.core.generate.drawing import layouts_of
from fuzz.core.generate.layouts import OVERLAPPING
from fuzz.core.generate.menus import menus_of
from fuzz.core.generate.realise import cases_of, laid
from fuzz.core.generate.sketch import LARGEST_CASE, fitting_n, free_parameters
from fuzz.core.generate.values import Laid
from oracles.operand import Parameter
from oracles.ops import OPS, remembered

RELATIVES = 2
"""The number of calls between the first call and its repetition."""
LENGTH = RELATIVES + 2
_TRIES = 4
"""The number of attempts to vary one property so that the kernel takes the relative, before another is varied."""

Vary = Callable[[Draw, Capability, Dice], Draw | None]
"""A function that returns a relative that differs in one property, or None if the kernel takes no other value."""


def _parameter(parameter: Parameter) -> Vary:
    """Return a function that changes the value of the parameter."""

    def vary(draw: Draw, capability: Capability, dice: Dice) -> Draw | None:
        others = [value for value in parameter.values if value != draw.parameters[parameter.name]]
        if not others or not _means_something(parameter, draw):
            return None
        return draw.with_params(**{parameter.name: dice.pick(others)})

    return vary


def _means_something(parameter: Parameter, draw: Draw) -> bool:
    return not parameter.only_with or any(part.name == parameter.only_with for part in draw.parts)


def _n(draw: Draw, capability: Capability, dice: Dice) -> Draw | None:
    """Return the draw with half or twice the row length, or a slightly different one, or None if none fits."""
    step = capability.step(OPS[draw.op].row) * (1 + dice.below(33))
    n = fitting_n(capability, max(1, dice.pick([draw.n // 2, draw.n - step, draw.n + step, 2 * draw.n])))
    longer = replace(draw, n=n)
    fits = n * draw.rows <= max(LARGEST_CASE, draw.n * draw.rows) and _is_cheap(longer)
    return longer if n != draw.n and fits else None


def _dtype(draw: Draw, capability: Capability, dice: Dice) -> Draw | None:
    """Return the draw with another dtype of the first input. The dtypes of other tensors change only if they must."""
    main = OPS[draw.op].main
    before = draw.part(main).dtype
    others = [dtype for dtype in capability.able.dtypes if dtype != before]
    if not others:
        return None
    first, parts = dice.pick(others), dict[str, Part]()
    for part in draw.parts:
        there = {each.name: each.dtype for each in parts.values()}
        allowed = (first,) if part.name == main else capability.dtypes_of(part.name, there)
        if part.alias is not None:
            dtype = parts[part.alias].dtype
        elif part.dtype == before and first in allowed:
            dtype = first
        else:
            dtype = part.dtype if part.dtype in allowed else allowed[0]
        parts[part.name] = replace(part, dtype=dtype)
    return replace(draw, parts=tuple(parts.values()))


def _layout(draw: Draw, capability: Capability, dice: Dice) -> Draw | None:
    """Return the draw with another layout of one tensor, and of the outputs that lie in its memory."""
    op = OPS[draw.op]
    # values would change where elements share memory
    whole = [part for part in draw.parts if part.alias is None and part.placement.layout not in OVERLAPPING]
    rows = [part for part in whole if op.has_rows(part.name)]
    if not rows:
        return None
    part = dice.pick(rows)
    possible = layouts_of(capability, part.name)
    others = [layout for layout in possible if layout != part.placement.layout and layout not in OVERLAPPING]
    if not others:
        return None
    placement = replace(part.placement, layout=dice.pick(others), spread=1 + dice.below(19))
    moved = {part.name, *(each.name for each in draw.parts if each.alias == part.name)}
    return draw.with_parts(*(replace(each, placement=placement) for each in draw.parts if each.name in moved))


_VARIED: Mapping[str, Vary] = {
    "n": _n,
    "dtype": _dtype,
    "layout": _layout,
    "values": lambda draw, capability, dice: replace(
        draw, seed=Stream(draw.seed).child(f"other values {dice.below(2**32)}").key
    ),
}


@remembered(256)
def varied(capability: Capability) -> Mapping[str, Vary]:
    """Return the functions that vary a draw, by name, in the order of use: one for each parameter, then the others."""
    op = OPS[capability.op]
    further = {name: vary for name, vary in _VARIED.items() if name != "n" or op.row not in op.fixed}
    return {**{f"{each.name} value": _parameter(each) for each in free_parameters(capability)}, **further}


def sequence(draw: Draw, capability: Capability, turn: int) -> list[Case]:
    """Return LENGTH cases: the case of `draw`, relatives within `capability` that each differ in one property, and the
    case of `draw` again. If a kernel keeps state between calls, either the first two calls or the last two show it."""
    names = list(varied(capability))
    # What is varied first in one turn is varied last in another, since state may pass in one direction only.
    start = turn * RELATIVES + turn // (len(names) // math.gcd(len(names), RELATIVES))
    orders = [[*names[at % len(names) :], *names[: at % len(names)]] for at in range(start, start + RELATIVES)]
    tries = [chain.from_iterable(_varied(draw, capability, name, turn) for name in order) for order in orders]
    # usually the first try will do
    itself = laid(draw)
    first, *relatives = cases_of([itself, *(next(each, itself) for each in tries)])
    for place, each in enumerate(tries):
        while not _is_other(relatives[place], first, capability):
            # A tensor of one element has only one layout, and a tensor of zeros no other values. Then vary another
            # thing, if possible.
            other = next(each, None)
            relatives[place] = first if other is None else cases_of([other])[0]
            if other is None:
                break
    return [first, *relatives, first]


def _is_other(case: Case, first: Case, capability: Capability) -> bool:
    """Whether a case differs from the first one and is within the capability."""
    same = (case.params, case.inputs, case.outputs) == (first.params, first.inputs, first.outputs)
    return not same and capability.refusal(case) is None


def _varied(draw: Draw, capability: Capability, name: str, turn: int) -> Iterator[Laid]:
    """Yield draws in which only the property of this name differs; see `varied`."""
    dice = Dice(Stream(draw.seed).child(f"{turn} {name}"))
    for _ in range(_TRIES):
        changed = varied(capability)[name](draw, capability, dice)
        if changed is not None:
            with contextlib.suppress(CaseError):  # the change may contradict the rest of the draw
                yield laid(changed)


_DIVISOR = 16
"""Triton compiles a separate program for an integer that is 1, and for one that is a multiple of this."""


def mate(draw: Draw, capability: Capability, number: int) -> Draw:
    """Return mate `number` of a draw: a draw that runs the same program in a kernel that is compiled for each length,
    dtype and alignment. Its values differ. Some mates have another recipe, other parameters or more or fewer rows."""
    dice = Dice(Stream(draw.seed).child(f"mate {number}"))
    found = replace(draw, seed=dice.below(2**64))
    found = _recipe(found, capability, dice) if dice.one_in(2) else found
    for parameter in free_parameters(capability):
        if all(isinstance(value, float) for value in parameter.values) and _means_something(parameter, draw):
            found = found.with_params(**{parameter.name: dice.pick(parameter.values)})
    return _other_rows(found, dice) if dice.one_in(2) else found


def _other_rows(draw: Draw, dice: Dice) -> Draw:
    """Return the draw with another number of rows. Return it unchanged if its op has further dimensions."""
    op = OPS[draw.op]
    if draw.rank == 1 or len(op.named) > 1 or op.made:
        return draw
    found = _resized(draw, dice.pick([2 + dice.below(2 * draw.rows + 6), _DIVISOR * (1 + dice.below(4))]))
    return found if _specialised(found.rows) == _specialised(draw.rows) else draw


def _specialised(number: int) -> tuple[bool, bool]:
    return number == 1, number % _DIVISOR == 0


Change = Callable[[Draw, Capability, Dice], Draw]
"""A function that changes one property of a draw for guidance."""

_FILLED = 4096
"""The most elements of a case that is filled up with rows: several times those of most cases, but cheap to judge."""
_MOST_ROWS = 256
"""The most rows of a filled case. An emulator takes as long for each row, however short, as for 100 elements."""


def filled(draw: Draw) -> Draw:
    """Return the draw with as many rows as fit into _FILLED elements, up to _MOST_ROWS."""
    return draw if draw.rank == 1 else _resized(draw, _MOST_ROWS)


def _resized(draw: Draw, rows: int) -> Draw:
    found = draw.with_rows(max(1, min(rows, _MOST_ROWS, _FILLED // max(draw.n, 1))))
    return found if _is_cheap(found) else draw


def _is_cheap(draw: Draw) -> bool:
    """Return whether the oracle's work for the draw stays small, and fixed dimensions have their extents."""
    op = OPS[draw.op]
    alone = len(op.named) == 1 and not op.made
    return (alone or draw.work <= CHEAP_WORK) and op.has_fixed(draw.grid, draw.axis, draw.extents)


def _of_length(draw: Draw, capability: Capability, n: int) -> Draw:
    # Without a limit rows would grow step by step without end, and the time of a case with them.
    n = fitting_n(capability, max(1, min(n, max(draw.n, LARGEST_CASE))))
    rows = draw.rows * draw.n // n if n > draw.n else draw.rows
    found = _resized(replace(draw, n=n), max(1, rows))
    return found if _is_cheap(found) else draw


def _near(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    step = capability.step(OPS[draw.op].row) * (1 + dice.below(4))
    return _of_length(draw, capability, draw.n + (step if dice.one_in(2) else -step))


def _recipe(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    """Return the draw with another recipe for one of the inputs."""
    part = dice.pick([part for part in draw.parts if part.recipe])
    return draw.with_parts(replace(part, recipe=dice.pick(menus_of(OPS[draw.op])[part.name].names)))


def _other_parameter(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    free = [each for each in free_parameters(capability) if _means_something(each, draw)]
    if not free:
        return draw
    parameter = dice.pick(free)
    return draw.with_params(**{parameter.name: dice.pick(parameter.values)})


def _less(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    """Return the draw without an optional input that no other tensor depends on. Fewer operations may err by less."""
    op = OPS[draw.op]
    relied = {op.operand(part.name).only_with for part in draw.parts} | {part.alias for part in draw.parts}
    free = [p.name for p in draw.parts if p.recipe and op.operand(p.name).optional and p.name not in relied]
    return draw.without(dice.pick(free)) if free else draw


CHANGES: Mapping[str, Change] = {
    "same": lambda draw, capability, dice: draw,
    "longer": lambda draw, capability, dice: _of_length(
        draw, capability, draw.n * dice.pick([2, 2, 4]) + dice.below(3)
    ),
    "shorter": lambda draw, capability, dice: _of_length(draw, capability, draw.n // dice.pick([2, 2, 4, 8])),
    "near": _near,
    "more_rows": lambda draw, capability, dice: (
        draw if draw.rank == 1 else _resized(draw, draw.rows * dice.pick([2, 4, 8]))
    ),
    "parameter": _other_parameter,
    "recipe": _recipe,
    "less": _less,
}
"""The changes that guidance tries, by name."""
