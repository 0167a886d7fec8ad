"""Fills: what lies, right before a call, where a kernel may not rely on anything: registers, dead
stack, new memory, shared memory of a GPU.

Which one it is follows from the case; a second run, and the twin of the law `rerun`, have another. A case that has the
param `FILL` asks for one itself; the kernel does not get it.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from fuzz.core.base.case import Case

FILL: Final = "_fill"
"""The param that says with what is filled. No parameter of an op can have that name."""
FILLS = {
    "0": 0x0000,
    "NaN": 0xFFFB,
    "a huge number": 0x7B7B,
    "a huge negative number": 0xFBFB,
    "an ordinary number": 0x3F3F,
}
"""Each kind in words, and the two bytes that are repeated: so it is that in each dtype of two bytes or more."""
UNSET = ("registers", "stack", "heap", "shared")
"""What is filled, where there is such: the last is what threads of a GPU share. A case may ask for 0 in some of it."""
ZERO, NAN, HUGE, NEGATIVE, ORDINARY = range(len(FILLS))
_ROOM = 8
"""The number of kinds that there is room for."""
_DRAWN = (NAN, HUGE, NAN, NEGATIVE, NAN, ORDINARY, NAN, HUGE)
"""NaN shows nearly everywhere, and is passed over by a maximum. 0 is not drawn: what needs it would pass, and the rule
of such a failure would be about chance."""
_LOOKED_AT = 256
"""The number of bytes of each input from which the kind is drawn."""


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
    """Return the case with another kind where it is filled with one, and in place of drawn NaN with 0."""
    asked, drawn = case.params.get(FILL), fill_of(case)
    if asked is None:
        return filled(case, ZERO if drawn == NAN else NAN)
    kind = drawn % _ROOM
    other = ZERO if kind == ZERO else HUGE if kind == NAN else NAN
    return replace(case, params={**case.params, FILL: drawn - kind + other})
