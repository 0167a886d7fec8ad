"""Many small decisions from one stream: far cheaper than asking Hypothesis for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fuzz.base.stream import Stream

_T = TypeVar("_T")

_ROLLS = 192
"""more than the operands of any op ask for."""


class Dice:
    """Decisions in the order in which they are asked for. The same stream gives the same ones."""

    def __init__(self, stream: Stream) -> None:
        self._words = iter(stream.words(_ROLLS).tolist())

    def below(self, count: int) -> int:
        """0 <= i < count."""
        return int(next(self._words)) % count

    def one_in(self, count: int) -> bool:
        """True once in `count` times."""
        return self.below(count) == 0

    def pick(self, options: Sequence[_T]) -> _T:
        """One of them."""
        return options[self.below(len(options))]
