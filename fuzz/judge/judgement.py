"""A judgement: the verdict on one case on one target, with what it rests on."""

from __future__ import annotations

from dataclasses import dataclass, field

from fuzz.base.outcome import Outcome
from fuzz.base.verdict import Verdict
from fuzz.laws.law import LawCheck
from oracles.truth import OutputCheck


@dataclass(frozen=True)
class Judgement:
    """The verdict on `target`'s outcome for the case with this digest."""

    target: str
    case: str
    """digest of the case."""
    verdict: Verdict
    ratio: float = 0.0
    """worst err/budget over all output elements; 0 where nothing was compared."""
    worst: OutputCheck | None = None
    """the output that decides, where outputs were compared."""
    reason: str = ""
    """one line in plain words, for verdicts that no number explains."""
    law: LawCheck | None = None
    """the law by which the judged case is a twin, and for FAIL_LAW the one that is broken."""
    outcome: Outcome | None = field(default=None, repr=False)
    """kept for findings only: passing runs would hold every output in memory."""

    @property
    def broken_law(self) -> LawCheck | None:
        """For FAIL_LAW: the law that does not hold."""
        return self.law if self.verdict is Verdict.FAIL_LAW else None

    @property
    def broken_law_name(self) -> str:
        """Its name; '' for any other verdict."""
        return self.broken_law.name if self.broken_law is not None else ""
