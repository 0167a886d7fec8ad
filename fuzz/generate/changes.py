"""What a relative of a case has changed, beside its values: one step in one direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fuzz.base.capability import Capability
from fuzz.base.draw import EPS, Draw
from fuzz.base.op import OPS
from fuzz.base.stream import Dice
from fuzz.generate.menus import MENUS
from fuzz.generate.sketch import LARGEST_CASE, fitting_n

Change = Callable[[Draw, Capability, Dice], Draw]

_FILLED = 4096
"""elements of a case with as many rows as fit: several times those of most cases, and still cheap to judge."""
_MOST_ROWS = 256
"""of such a case: an emulator takes as long for each row, however short, as for a hundred elements."""


def filled(draw: Draw) -> Draw:
    """With as many rows as fit into _FILLED elements, up to _MOST_ROWS."""
    return draw if draw.rank == 1 else _resized(draw, _MOST_ROWS)


def _resized(draw: Draw, rows: int) -> Draw:
    return draw.with_rows(max(1, min(rows, _MOST_ROWS, _FILLED // max(draw.n, 1))))


def _same(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    """Other values alone."""
    return draw


def _of_length(draw: Draw, capability: Capability, n: int) -> Draw:
    # Step by step rows would grow without end, and with them the time that a case takes.
    n = fitting_n(capability, max(1, min(n, max(draw.n, LARGEST_CASE))))
    rows = draw.rows * draw.n // n if n > draw.n else draw.rows
    return _resized(replace(draw, n=n), max(1, rows))


def _longer(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    return _of_length(draw, capability, draw.n * dice.pick([2, 2, 4]) + dice.below(3))


def _shorter(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    return _of_length(draw, capability, draw.n // dice.pick([2, 2, 4, 8]))


def _near(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    step = capability.able.multiple_of * (1 + dice.below(4))
    return _of_length(draw, capability, draw.n + (step if dice.one_in(2) else -step))


def _more_rows(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    return draw if draw.rank == 1 else _resized(draw, draw.rows * dice.pick([2, 4, 8]))


def _eps(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    return draw.with_params(eps=dice.pick(EPS))


def _recipe(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    """Another recipe for one of the inputs."""
    part = dice.pick([part for part in draw.parts if part.recipe])
    return draw.with_parts(replace(part, recipe=dice.pick(MENUS[OPS[draw.op].operand(part.name).menu])))


def _less(draw: Draw, capability: Capability, dice: Dice) -> Draw:
    """Without an optional input that nothing else rests on: fewer operations are allowed fewer errors."""
    op = OPS[draw.op]
    relied = {op.operand(part.name).only_with for part in draw.parts} | {part.alias for part in draw.parts}
    free = [p.name for p in draw.parts if p.recipe and op.operand(p.name).optional and p.name not in relied]
    if not free:
        return draw
    dropped = dice.pick(free)
    return draw.without(dropped).with_params(**({"offset": 0.0} if dropped == "weight" else {}))


CHANGES: Mapping[str, Change] = {
    change.__name__.strip("_"): change for change in (_same, _longer, _shorter, _near, _more_rows, _eps, _recipe, _less)
}
"""by name."""
