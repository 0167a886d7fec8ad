"""Fills: the content of registers, dead stack, new memory and a GPU's shared memory right before a call. Kernels must
not rely on it. The kind of fill follows from the case; a second run, and the twin of the law `rerun`, get another kind.
A case may choose the kind by the param `FILL`, which is not passed to the kernel."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from fuzz.core.base.case import Case

FILL: Final = "_fill"
"""The param that chooses the fill. No parameter of an op can have this name."""
FILLS = {
    "0": 0x0000,
    "NaN": 0xFFFB,
    "a huge number": 0x7B7B,
    "a huge negative number": 0xFBFB,
    "an ordinary number": 0x3F3F,
}
"""The kinds of fill in words, with the two bytes that are repeated. The words hold in dtypes of two bytes or more."""
UNSET = ("registers", "stack", "heap", "shared")
"""The parts that are filled, if they exist; GPU threads share `shared`. A case may ask for 0 in some of them."""
ZERO, NAN, HUGE, NEGATIVE, ORDINARY = range(len(FILLS))
_ROOM = 8
"""The number of kinds for which the param has room."""
_DRAWN = (NAN, HUGE, NAN, NEGATIVE, NAN, ORDINARY, NAN, HUGE)
"""The kinds that are drawn. NaN shows nearly everywhere, but a maximum may ignore it. 0 is not drawn: a kernel that
needs it would pass by chance, and the rule of its failure would describe chance."""
_LOOKED_AT = 256
"""The number of bytes of each input that decide the kind."""


def fill_of(case: Case) -> int:
    """Return the fill that a case asks for, or else one that its inputs decide."""
    asked = case.params.get(FILL)
    if asked is not None:
        return int(asked)
    key = 0
    for tensor in case.inputs.values():
        key = zlib.crc32(tensor.bits[:_LOOKED_AT], key + len(tensor.bits))
    return _DRAWN[key % len(_DRAWN)]


def word_of(fill: int, part: str) -> int:
    """Return the two bytes with which one of the parts in `UNSET` is filled."""
    is_cleared = fill // _ROOM >> UNSET.index(part) & 1
    return 0 if is_cleared else [*FILLS.values()][fill % _ROOM]


def is_fill(value: float | int) -> bool:
    """Return whether a value is a valid fill."""
    return isinstance(value, int) and 0 <= value < _ROOM << len(UNSET) and value % _ROOM < len(FILLS)


def filled(case: Case, kind: int, without: Collection[str] = ()) -> Case:
    """Return the case with a kind of fill, and with 0 in the parts `without`."""
    cleared = sum(1 << UNSET.index(each) for each in without)
    return replace(case, params={**case.params, FILL: kind + _ROOM * cleared})


def refilled(case: Case) -> Case:
    """Return the case with another kind of fill than it asks for or, if it asks for none, than its inputs decide."""
    asked, drawn = case.params.get(FILL), fill_of(case)
    if asked is None:
        return filled(case, ZERO if drawn == NAN else NAN)
    kind = drawn % _ROOM
    other = ZERO if kind == ZERO else HUGE if kind == NAN else NAN
    return replace(case, params={**case.params, FILL: drawn - kind + other})
