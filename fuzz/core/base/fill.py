"""Fills: what registers, dead stack, new memory and a GPU's shared memory hold right before a call, since a kernel may
not rely on it. The kind of fill follows from the case; a second run, and the twin of the law `rerun`, get another kind.
A case with the param `FILL` asks for a kind itself; the kernel does not get that param."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from fuzz.core.base.case import Case

FILL: Final = "_fill"
"""The param that says what is filled in. No parameter of an op can have that name."""
FILLS = {
    "0": 0x0000,
    "NaN": 0xFFFB,
    "a huge number": 0x7B7B,
    "a huge negative number": 0xFBFB,
    "an ordinary number": 0x3F3F,
}
"""Each kind in words, with the two bytes that are repeated: it means that in each dtype of two bytes or more."""
UNSET = ("registers", "stack", "heap", "shared")
"""What is filled, where it exists; `shared` is what the threads of a GPU share. A case may ask for 0 in some of it."""
ZERO, NAN, HUGE, NEGATIVE, ORDINARY = range(len(FILLS))
_ROOM = 8
"""The number of kinds that the param has room for."""
_DRAWN = (NAN, HUGE, NAN, NEGATIVE, NAN, ORDINARY, NAN, HUGE)
"""The kinds that are drawn. NaN shows nearly everywhere, but a maximum may pass over it. 0 is not drawn: a kernel that
needs it would pass by chance, and the rule of its failure would be about chance."""
_LOOKED_AT = 256
"""The bytes of each input that decide the kind."""


def fill_of(case: Case) -> int:
    """Return the fill that a case asks for, or one that is drawn by its inputs."""
    asked = case.params.get(FILL)
    if asked is not None:
        return int(asked)
    key = 0
    for tensor in case.inputs.values():
        key = zlib.crc32(tensor.bits[:_LOOKED_AT], key + len(tensor.bits))
    return _DRAWN[key % len(_DRAWN)]


def word_of(fill: int, part: str) -> int:
    """Return the two bytes that are filled in one of `UNSET`."""
    is_cleared = fill // _ROOM >> UNSET.index(part) & 1
    return 0 if is_cleared else [*FILLS.values()][fill % _ROOM]


def is_fill(value: float | int) -> bool:
    """Return whether a case may ask for it."""
    return isinstance(value, int) and 0 <= value < _ROOM << len(UNSET) and value % _ROOM < len(FILLS)


def filled(case: Case, kind: int, without: Collection[str] = ()) -> Case:
    """Return the case that asks for a kind, and for 0 in some of `UNSET`."""
    cleared = sum(1 << UNSET.index(each) for each in without)
    return replace(case, params={**case.params, FILL: kind + _ROOM * cleared})


def refilled(case: Case) -> Case:
    """Return the case with another kind of fill than it states or, if it states none, than it draws."""
    asked, drawn = case.params.get(FILL), fill_of(case)
    if asked is None:
        return filled(case, ZERO if drawn == NAN else NAN)
    kind = drawn % _ROOM
    other = ZERO if kind == ZERO else HUGE if kind == NAN else NAN
    return replace(case, params={**case.params, FILL: drawn - kind + other})
