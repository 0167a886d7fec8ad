"""Linear recurrences, h(t) = a(t) h(t - 1) + b(t), in any arithmetic: one place after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oracles.formula.exact.arithmetic import Arithmetic, Values
from oracles.formula.exact.contraction import part


def recurred(arithmetic: Arithmetic, args: Sequence[Values], axis: int, count: int) -> Values:
    """Return h at all places along an axis, of a, b and what h is before the first."""
    a, b, h = args
    found = list[Any]()
    for place in range(count):
        each, more = (at_place(values, axis, place) for values in (a, b))
        h = arithmetic.operate("add", arithmetic.operate("multiply", each, h), more)
        found.append(h)
    if not found:  # no element, along axes as long as what they are made of
        return at_place(arithmetic.operate("add", arithmetic.operate("multiply", a, h), b), axis, slice(0, 0))
    return arithmetic.joined(found, axis)


def at_place(values: Any, axis: int, place: int | slice) -> Any:
    """Return one place along an axis, or some; all of what has one element there."""
    return part(values, (axis,), (place if isinstance(place, slice) else slice(place, place + 1),))
