"""How a night's time is shared out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

REPLAY_SHARE = 0.25
"""of a night, at most, for what is known: earlier findings and corpora."""
TRIAGE_SHARE = 0.2
"""of a night, at most, for shrinking and explaining."""
_FIRST_S, _LONGEST_S = 30.0, 600.0
"""of a slice: short ones first, so that every op is visited early; long ones later, since each begins anew."""


@dataclass(frozen=True)
class Turn:
    """The next slice: which op is searched, with which seed, for how long at most."""

    number: int
    op: str
    seed: int
    seconds: float


def next_turn(
    night_seed: int, number: int, ops: Sequence[str], used: Mapping[str, Sequence[float]], left: float
) -> Turn:
    """The op that had the least time so far, for twice as long as its slice before.

    `used` are the seconds of the slices that each op has had; `number` counts all slices of the night, also those of
    earlier sessions, so that no seed is used twice.
    """
    op = min(ops, key=lambda each: (sum(used.get(each, ())), ops.index(each)))
    seconds = min(_FIRST_S * 2.0 ** len(used.get(op, ())), _LONGEST_S, max(left / len(ops), min(left, _FIRST_S)))
    return Turn(number, op, slice_seed(night_seed, number), seconds)


def searching_time(turn: Turn, left: float) -> float:
    """Seconds of search in a slice. While much is left of the night, some is kept for what the slice finds."""
    return min(turn.seconds, left if left <= _FIRST_S else left * (1.0 - TRIAGE_SHARE))


def slice_seed(night_seed: int, number: int) -> int:
    """The seed of one slice, as `kernelfuzz run --seed` takes it."""
    digest = hashlib.blake2b(f"{night_seed}/slice/{number}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little")
