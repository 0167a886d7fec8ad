"""What is asked of a judge, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fuzz.core.base.exits import Exit
from fuzz.tasks.judge.ruling import Ruling

QUICK_REPLAYS, FULL_REPLAYS = 48, 600
"""The cases of a quick verdict and of a full one, where the reference itself is run in place of a formula."""


@dataclass(frozen=True)
class Asked:
    """What is to be judged, by what and how."""

    solutions: tuple[str, ...]
    against: str
    shapes: str | None
    values: str
    seed: int | None
    cases: int
    replays: int
    """The cases where the reference itself is run in place of a formula: each takes twenty runs of it."""
    output: Path
    untrusted: bool
    targets: tuple[str, ...]
    case_limit: float | None
    explain_s: float | None
    """The seconds that each bug is explained for; None: it is shown as it was found, with what changes about it."""
    own: bool = False
    """Whether the shapes that come with a task are the only ones."""
    any_values: bool = False
    """Whether inputs may be what those that come with a task never are."""

    @property
    def replay_s(self) -> float:
        """The seconds of a processor that all replays may take."""
        return 60.0 * max(1.0, self.replays / QUICK_REPLAYS)


@dataclass(frozen=True)
class Judged:
    """The ruling, and what people read."""

    ruling: Ruling
    text: str
    code: Exit | None = None
    """The exit code, where that is not the verdict's: it was interrupted, or ended by an error of ours."""
