"""The coverage ledger: what a search has visited, against what it should visit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Label = tuple[str, str]
"""a kind, such as 'tail of 48', and one of its values, such as '17'."""


class Ledger:
    """Counts labels against a space. Values outside the space are counted too, but are nobody's coverage gap."""

    def __init__(self, space: Mapping[str, tuple[str, ...]]) -> None:
        self.space = space
        self.counts: dict[str, Counter[str]] = {kind: Counter() for kind in space}
        self._open = {kind: dict.fromkeys(values) for kind, values in space.items() if values}

    def see(self, labels: Iterable[Label]) -> None:
        """Count one case."""
        for kind, value in labels:
            if kind not in self.counts:
                continue
            self.counts[kind][value] += 1
            waiting = self._open.get(kind)
            if waiting is not None and value in waiting:
                del waiting[value]
                if not waiting:
                    del self._open[kind]

    @property
    def is_open(self) -> bool:
        """Whether there is a coverage gap."""
        return bool(self._open)

    @property
    def breadth(self) -> int:
        """How many labels the space has."""
        return sum(map(len, self.space.values()))

    @property
    def size(self) -> int:
        """How many coverage gaps there are."""
        return sum(map(len, self._open.values()))

    def lacks(self, label: Label) -> bool:
        """Whether this is a coverage gap."""
        kind, value = label
        return value in self._open.get(kind, ())

    def wanted(self, turn: int, everyone: Ledger | None = None) -> list[Label]:
        """A coverage gap of every kind that has any, other ones each turn; first that of the kind with most.

        Every second turn another kind comes first: one that cannot be filled must not keep the others waiting. What is
        a gap of `everyone` too, a ledger of several kernels' spaces together, comes before what is this kernel's only.
        """
        first = {kind: self._shared(kind, everyone) for kind in self._open}
        kinds = sorted(first, key=lambda kind: (-len(first[kind]), -len(self._open[kind])))
        if turn % 2 and kinds:
            kinds.insert(0, kinds.pop(turn // 2 % len(kinds)))
        chosen = {kind: first[kind] or list(self._open[kind]) for kind in kinds}
        return [(kind, values[turn * 7 % len(values)]) for kind, values in chosen.items()]

    def _shared(self, kind: str, everyone: Ledger | None) -> list[str]:
        """The kind's gaps that are gaps of `everyone` too."""
        shared = self._open[kind] if everyone is None else everyone._open.get(kind, {})
        return [value for value in self._open[kind] if value in shared]

    def gaps(self) -> dict[str, list[str]]:
        """Labels of the space that no case has visited, by kind."""
        return {kind: list(values) for kind, values in self._open.items()}
