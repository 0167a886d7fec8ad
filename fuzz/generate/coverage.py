"""The coverage ledger: what a search has visited, against what it should visit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Label = tuple[str, str]
"""a kind, such as 'tail of 48', and one of its values, such as '17'."""


class Ledger:
    """Counts labels against a space. Values outside the space are counted too, but are nobody's hole."""

    def __init__(self, space: Mapping[str, tuple[str, ...]]) -> None:
        self.space = space
        self.counts: dict[str, Counter[str]] = {kind: Counter() for kind in space}
        self._open = {(kind, value): None for kind, values in space.items() for value in values}

    def see(self, labels: Iterable[Label]) -> None:
        """Count one case."""
        for kind, value in labels:
            if kind not in self.counts:
                continue
            self.counts[kind][value] += 1
            self._open.pop((kind, value), None)

    @property
    def is_open(self) -> bool:
        """Whether there is a hole."""
        return bool(self._open)

    def hole(self, turn: int) -> Label | None:
        """One of the labels not seen yet, another one each turn; None when there is none left."""
        if not self._open:
            return None
        # A hole that steering cannot fill must not keep the others waiting.
        return list(self._open)[turn * 7 % len(self._open)]

    def holes(self) -> dict[str, list[str]]:
        """Labels of the space that no case has visited, by kind."""
        found: dict[str, list[str]] = {}
        for kind, value in self._open:
            found.setdefault(kind, []).append(value)
        return found
