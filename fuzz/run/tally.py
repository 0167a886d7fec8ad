"""What a run has seen so far, per target and in all."""

from __future__ import annotations

from dataclasses import dataclass, field

from fuzz.case import Case
from fuzz.judge.judgement import Judgement
from fuzz.verdict import Verdict


@dataclass
class TargetTally:
    """Counts for one target."""

    target: str
    kernel: str
    judged: int = 0
    """runs with a verdict other than NOT_RUN."""
    findings: int = 0
    gave_up: int = 0
    not_run: int = 0
    worst_ratio: float = 0.0
    """largest err/budget of a passing run."""
    worst_where: str = ""
    not_run_reason: str = ""

    def add(self, case: Case, judgement: Judgement) -> None:
        """Count one judgement."""
        if judgement.verdict is Verdict.NOT_RUN:
            self.not_run += 1
            self.not_run_reason = judgement.reason
            return
        self.judged += 1
        if judgement.verdict.is_finding:
            self.findings += 1
        elif judgement.verdict is Verdict.ORACLE_GAVE_UP:
            self.gave_up += 1
        elif judgement.ratio > self.worst_ratio:
            self.worst_ratio = judgement.ratio
            self.worst_where = whereabouts(case)


@dataclass
class Tally:
    """Counts for all targets of a run."""

    targets: dict[str, TargetTally] = field(default_factory=dict)
    cases: int = 0

    @property
    def judged(self) -> int:
        """Judged runs: one case on one target."""
        return sum(target.judged for target in self.targets.values())

    @property
    def findings(self) -> int:
        return sum(target.findings for target in self.targets.values())

    @property
    def gave_up(self) -> int:
        return sum(target.gave_up for target in self.targets.values())

    @property
    def worst(self) -> TargetTally | None:
        """The target with the largest passing err/budget."""
        return max(self.targets.values(), key=lambda target: target.worst_ratio, default=None)


def whereabouts(case: Case) -> str:
    """A case in a few words, e.g. 'f32 3x1041 spike'."""
    tensor = next(iter(case.inputs.values()))
    shape = "x".join(str(extent) for extent in tensor.layout.shape)
    return f"{tensor.dtype} {shape} {case.origin.recipe}"
