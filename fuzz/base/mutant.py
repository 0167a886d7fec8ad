"""A mutant: a correct kernel plus exactly one planted defect, used to prove that the tool can find it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fuzz.base.kernel import Kernel


@dataclass(frozen=True)
class Mutant:
    """The kernel `base` with textual `edits`; each `old` occurs exactly once in the base's source."""

    name: str
    base: str
    edits: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]
    """globs of the targets on which it must be killed."""
    trigger: str
    """in plain words, which inputs show the defect."""
    caught_as: tuple[str, ...]
    """verdicts that count as found for the right reason."""
    provenance: str
    """the real bug that this one is modelled on."""
    fails_when: Callable[[int], bool] | None = None
    """of the row length n: True where the defect can show. A failure elsewhere has another cause."""

    big: bool = False
    """only cases that are big in one coordinate show it: they come first."""
    of_size: bool = False
    """a loss of accuracy, wrong only where it is more than is allowed: what `fuzz.quality guidance` hunts for."""
    needs_history: bool = False
    """no case shows it alone: some other call must come before it in the same process."""
    explained_as: tuple[str, ...] = ()
    """words that an explanation must have to name the trigger."""

    def apply(self, base: Kernel) -> Kernel:
        """The base with the defect planted, under the mutant's name."""
        return replace(base, name=self.name, edits=self.edits, summary=self.trigger)
