"""What a bucket of a night keeps, and how buckets are named."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from fuzz.base.case import Case
from fuzz.judge.judge import Judgement
from fuzz.triage.family import Family
from fuzz.triage.history import Need
from fuzz.triage.rule import Rule
from fuzz.triage.sorting import Pile


@dataclass
class Kept:
    """The smallest case of a bucket, and where it is."""

    size: int
    path: Path | None = None
    """None while it could not be written."""
    case: Case | None = None
    """with the finding, in memory since it was found in this session."""
    judgement: Judgement | None = None
    pending: bool = True
    """not shrunk and explained yet."""
    target: str = ""
    """where the case fails."""
    found_by: str = ""
    """command that searches the same cases again."""
    seed: int = 0
    explanation: tuple[str, ...] = ()
    original: str = ""
    """digest of the case that it was shrunk from."""
    need: Need | None = None
    """what the bucket's failures need to show again; None until it was examined once."""
    core: Rule | None = None
    """what tells its failures from others of its kernel and family; None too where there was no time to learn it: half
    a rule would make further buckets of the same bug."""
    tries: int = 0
    """times that it was explained in part, for lack of time."""
    also: frozenset[str] = frozenset()
    """other kernels of which the same fault in a shared source was seen: its rule holds of their failures too."""
    history: tuple[Case, ...] = ()
    """the calls that must come before the case."""
    pile: Pile = field(default_factory=Pile, repr=False)
    """failing runs of this session, until they are sorted."""

    @property
    def examined(self) -> bool:
        """True once its cause was looked for."""
        return self.need is not None

    @property
    def alone(self) -> bool:
        """Its case fails by itself, as far as is known."""
        return self.need in (None, Need.NOTHING)

    def forgotten(self) -> Kept:
        """What stays true of the bucket when another case is kept."""
        return replace(self, case=None, judgement=None, explanation=(), original="", history=(), pending=True)


def signature(kernel: str, judgement: Judgement) -> str:
    """Name of the first bucket of a kernel and family: verdicts that one cause mixes are one family, such as a wrong
    value and a NaN. Further causes have a number after a '+', which no kernel's name has."""
    return "-".join([kernel, *Family.of(judgement).key.split()])


def family_of(name: str) -> str:
    """The signature without the number of the cause."""
    return name.partition("+")[0]
