"""Buckets: findings that have one cause, as far as is known, and how buckets are named."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.core.base import __version__
from fuzz.core.base.case import Case
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement

if TYPE_CHECKING:  # a search that finds nothing explains nothing
    from fuzz.explain.attribute.history import Need
    from fuzz.explain.causes import Pile
    from fuzz.explain.explanation import Explanation
    from fuzz.explain.finding import Finding
    from fuzz.explain.rule.rule import Rule
    from fuzz.findings.casefile import FoundRecord


def _no_pile() -> Pile:
    from fuzz.explain.causes import Pile

    return Pile()


@dataclass(frozen=True)
class Source:
    """The search that found something."""

    seed: int
    command: str = ""
    """The command that searches the same cases again."""


@dataclass
class Bucket:
    """What is known of one bug: its smallest finding, what tells it from others, where it was seen and how often."""

    name: str
    kernel: str
    finding: Finding | None = None
    """Its smallest finding. None for a bucket of an earlier session that has not failed in this one yet."""
    size: tuple[int, int] = (0, 0)
    """The size of the case that is kept. An explained case is replaced only by one of fewer elements."""
    target: str = ""
    """The target on which the kept case fails."""
    source: Source = Source(0)
    path: Path | None = None
    """The path of its case file."""
    written: bool = False
    """Whether the case file holds this very finding. When the disk is full, it keeps the one before."""
    note: str = ""
    """What is known of an unexplained finding beyond its judgement."""
    option: str = ""
    """The command-line option that would give time to explain it, where there was none."""
    need: Need | None = None
    """What its failures need to show again; None until that has been tried."""
    core: Rule | None = None
    """The rule that tells its failures from others of its kernel and family; also None if there was no time to learn
    it."""
    also: frozenset[str] = frozenset()
    """The other kernels that showed the same fault of a shared source. Its rule holds for their failures too."""
    tries: int = 0
    """How many times it was explained only in part, for lack of time."""
    pending: bool = True
    """Whether it is still to be explained."""
    sightings: Counter[str] = field(default_factory=Counter)
    """The number of failing runs of this session, by target."""
    pile: Pile = field(default_factory=_no_pile, repr=False)
    """The same failing runs one by one, until they are sorted by their causes."""
    explanation: Explanation | None = None
    """All that is known of the finding; None where there is none."""
    glimpse: Finding | None = None
    """A larger case that failed in this session, while there is no finding."""

    @property
    def found(self) -> Finding:
        """The finding of a bucket that has failed in this session."""
        assert self.finding is not None
        return self.finding

    @property
    def case(self) -> Case:
        return self.found.case

    @property
    def judgement(self) -> Judgement:
        return self.found.judgement

    @property
    def history(self) -> tuple[Case, ...]:
        """The calls that must come before the case, in one process."""
        return self.finding.history if self.finding is not None else ()

    @property
    def verdict(self) -> str:
        return self.judgement.verdict.value

    @property
    def others(self) -> dict[str, str]:
        """By other target, its verdict on the case: who agrees with the oracle and who does not."""
        return {name: verdict for name, verdict in self.found.verdicts.items() if name != self.found.target}

    @property
    def count(self) -> int:
        """The number of failing runs in this session."""
        return self.sightings.total()

    @property
    def targets(self) -> set[str]:
        """The targets on which it was seen in this session."""
        return {target for target, count in self.sightings.items() if count > 0}

    @property
    def is_explained(self) -> bool:
        """Whether it stands for a cause, and not only for failures that look alike. An earlier session may have found
        the cause."""
        if self.finding is None:
            return False
        return self.finding.diagnosis is not None or (self.finding.told is not None and not self.pending)

    @property
    def is_sorted(self) -> bool:
        """Whether its cause was looked for."""
        return self.need is not None

    @property
    def alone(self) -> bool:
        """Whether its case fails without earlier calls, as far as is known."""
        from fuzz.explain.attribute.history import Need

        return self.need in (None, Need.NOTHING)

    @property
    def told(self) -> Explanation:
        """What is known of the finding, of a bucket that has failed in this session."""
        from fuzz.explain.facts import explanation_of

        told = self.explanation or replace(explanation_of(self.found, None), kernel=self.kernel)
        return replace(told, note=self.note or told.note, option=told.option or self.option)

    def record(self) -> FoundRecord:
        """Return what its case file says besides the case."""
        from fuzz.findings.casefile import FoundRecord, formula_of

        finding, judgement = self.found, self.judgement
        return FoundRecord(
            finding.target, judgement.verdict.value, self.source.seed, __version__, judgement.broken_law,
            explanation=self.told, original=finding.original, history=finding.history,
            formula=formula_of(finding.case.op),
        )  # fmt: skip


def by_verdict(kernel: str, judgement: Judgement) -> str:
    """Return the bucket name of a kernel and verdict, and of a broken law: a run reports unexplained failures so."""
    words = (kernel, judgement.verdict.value.lower(), judgement.broken_law_name)
    return "-".join(word for word in words if word)


def by_family(kernel: str, judgement: Judgement) -> str:
    """Return the bucket name of a kernel and family, a family being verdicts that one cause mixes, such as a wrong
    value and a NaN."""
    from fuzz.explain.trial.family import Family

    return "-".join([kernel, *Family.of(judgement).key.split()])


def base_of(name: str) -> str:
    """Return the name without the number of the cause: further causes have one after a '+', which kernels' names
    lack."""
    return name.partition("+")[0]


def family_of(bucket: Bucket) -> str:
    """Return kernel and family of a bucket that failed in this session. Buckets equal in both may have one cause."""
    return by_family(bucket.kernel, bucket.judgement)


def hangs(bucket: Bucket) -> bool:
    """Whether it is a timeout that was already seen alone: a worker tries such a case again in a process of its own."""
    return bucket.verdict == Verdict.TIMEOUT.value
