"""Buckets: findings that have one cause, as far as is known, and their names."""

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
    """The search that found a case."""

    seed: int
    command: str = ""
    """The command that runs the same search again."""


@dataclass
class Bucket:
    """One bug, as far as is known: its smallest finding, the rule that identifies it, and its sightings."""

    name: str
    kernel: str
    finding: Finding | None = None
    """The smallest finding; None if the bucket is from an earlier session and has not failed in this one."""
    size: tuple[int, int] = (0, 0)
    """The size of the kept case. An explained case is replaced only by one with fewer elements."""
    target: str = ""
    """The target on which the kept case fails."""
    source: Source = Source(0)
    path: Path | None = None
    """The path of its case file."""
    written: bool = False
    """Whether the case file has the present finding; if the disk is full, it has the one before."""
    note: str = ""
    """A remark on a finding that is not explained."""
    option: str = ""
    """The command-line option that gives more time for the explanation; '' if time was not short."""
    need: Need | None = None
    """What the failure needs to show again; None if that was not tried yet."""
    core: Rule | None = None
    """The rule by which its failures are told from others of the kernel and family; None if there is none, or if there
    was no time to learn one."""
    also: frozenset[str] = frozenset()
    """The other kernels that show the same fault, in a source that they share. The rule covers their failures too."""
    tries: int = 0
    """The number of explanations that were not finished in time."""
    pending: bool = True
    """Whether the bucket is waiting to be explained."""
    sightings: Counter[str] = field(default_factory=Counter)
    """The number of failing runs of this session, by target."""
    pile: Pile = field(default_factory=_no_pile, repr=False)
    """The failing runs one by one, until they are sorted by cause."""
    explanation: Explanation | None = None
    """The explanation of the finding, as far as it is known; None without a finding."""
    glimpse: Finding | None = None
    """A larger case that failed in this session, if the bucket has no finding."""

    @property
    def found(self) -> Finding:
        """The finding, for a bucket that has failed in this session."""
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
        """The verdicts of the other targets on the case."""
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
        """Whether the bucket's failures have one cause, which this or an earlier session found, or only look alike."""
        if self.finding is None:
            return False
        return self.finding.diagnosis is not None or (self.finding.told is not None and not self.pending)

    @property
    def is_sorted(self) -> bool:
        """Whether the cause of the bucket has been looked for."""
        return self.need is not None

    @property
    def alone(self) -> bool:
        """Whether the bucket's case fails without earlier calls, as far as is known."""
        from fuzz.explain.attribute.history import Need

        return self.need in (None, Need.NOTHING)

    @property
    def told(self) -> Explanation:
        """The explanation of the finding, for a bucket that has failed in this session."""
        from fuzz.explain.facts import explanation_of

        told = self.explanation or replace(explanation_of(self.found, None), kernel=self.kernel)
        return replace(told, note=self.note or told.note, option=told.option or self.option)

    def record(self) -> FoundRecord:
        """Return the record of the finding that its case file holds besides the case."""
        from fuzz.findings.casefile import FoundRecord, formula_of

        finding, judgement = self.found, self.judgement
        return FoundRecord(
            finding.target, judgement.verdict.value, self.source.seed, __version__, judgement.broken_law,
            explanation=self.told, original=finding.original, history=finding.history,
            formula=formula_of(finding.case.op),
        )  # fmt: skip


def by_verdict(kernel: str, judgement: Judgement) -> str:
    """Return the bucket name for a kernel, verdict and broken law, under which unexplained failures are reported."""
    words = (kernel, judgement.verdict.value.lower(), judgement.broken_law_name)
    return "-".join(word for word in words if word)


def by_family(kernel: str, judgement: Judgement) -> str:
    """Return the bucket name for a kernel and family. A family is a set of verdicts that one cause may show as, such as
    a wrong value and a NaN."""
    from fuzz.explain.trial.trial import Family

    return "-".join([kernel, *Family.of(judgement).key.split()])


def base_of(name: str) -> str:
    """Return the name without the number of the cause, which follows a '+'; names of kernels contain no '+'."""
    return name.partition("+")[0]


def family_of(bucket: Bucket) -> str:
    """Return the kernel and family of a bucket that failed in this session: equal ones may be one cause."""
    return by_family(bucket.kernel, bucket.judgement)


def hangs(bucket: Bucket) -> bool:
    """Whether the verdict is a timeout, which was seen in a new process, too: a worker tries a hanging case there."""
    return bucket.verdict == Verdict.TIMEOUT.value
