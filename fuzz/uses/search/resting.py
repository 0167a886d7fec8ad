"""Who is not given the next batch of cases."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fuzz.adapters.target import Target


@dataclass
class Resting:
    """Those whose turn it is not, and slow targets but for one batch in `slow_every`.

    Batches are counted, not timed, so that the same seed or commit gets the same answer.
    """

    others: frozenset[str]
    slow: frozenset[str]
    slow_every: int
    first: int = 1
    """batches that everybody is given to begin with."""
    batches: int = 0

    def __call__(self) -> frozenset[str]:
        number, self.batches = self.batches, self.batches + 1
        rests = number >= self.first and number % max(self.slow_every, 1)
        return self.others | self.slow if rests else self.others


def slow_ones(targets: Collection[Target]) -> frozenset[str]:
    """The slow targets, which others would have to wait for; none where there are no others."""
    slow = frozenset(target.id for target in targets if target.slow)
    return slow if len(slow) < len(targets) else frozenset()
