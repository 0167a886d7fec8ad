"""Shares of a night's time: none of its targets is at work for longer than its equal part of the processors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_HEAD_START_S = 2.0
"""of work that every target may do, however short the night is so far."""


@dataclass
class FairShares:
    """Says which targets rest: an interpreter takes a hundred times as long for a case as what is compiled.

    Their share grows as time passes, so that no target rests for good.
    """

    busy_s: Callable[[], Mapping[str, float]]
    """seconds that each target has been at work."""
    jobs: int = 0
    """targets that run at a time; 0: one per processor."""
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def __call__(self) -> frozenset[str]:
        busy = self.busy_s()
        share = (self.clock() - self.began) * (self.jobs or os.cpu_count() or 1) / max(len(busy), 1)
        return frozenset(target for target, seconds in busy.items() if seconds > share + _HEAD_START_S)
