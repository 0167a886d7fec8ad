"""What a run has seen so far, per target and in all; and who is told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fuzz.base.case import ITEMSIZE, Case
from fuzz.base.verdict import Verdict
from fuzz.execute.lane import Wait
from fuzz.execute.reach import Reach
from fuzz.generate.coverage import Ledger
from fuzz.judge.judge import Judgement


class Observer(Protocol):
    """Told of everything that is judged, as it happens; by default it does nothing."""

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        """One case on all targets."""
        return

    def progress(self, elapsed: float) -> None:
        """A batch is complete, so many seconds after the start."""
        return

    def waiting(self, waits: Sequence[Wait], elapsed: float) -> None:
        """A batch is waited for; told several times a second."""
        return


@dataclass(frozen=True)
class WorstPass:
    """The largest err/budget of a passing run, and where it was seen."""

    ratio: float
    where: str


@dataclass
class TargetTally:
    """Counts for one target."""

    target: str
    kernel: str
    judged: int = 0
    """The number of runs with a verdict other than NOT_RUN."""
    findings: int = 0
    gave_up: int = 0
    not_run: int = 0
    worst: dict[str, WorstPass] = field(default_factory=dict)
    """The worst passing runs by dtype, since a 16-bit output is dominated by its own rounding, so that its err/budget
    is always close to 1."""
    not_run_reason: str = ""
    broken: str = ""
    """All that is known, where nothing ran because its kernel cannot be built or started."""

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
        elif judgement.worst is not None:
            self._note_worst(case, judgement.ratio)

    def _note_worst(self, case: Case, ratio: float) -> None:
        dtype = next(iter(case.inputs.values())).dtype
        known = self.worst.get(dtype)
        if known is None or ratio > known.ratio:
            self.worst[dtype] = WorstPass(ratio, whereabouts(case))


@dataclass
class Tally:
    """Counts for all targets of a run."""

    targets: dict[str, TargetTally] = field(default_factory=dict)
    cases: int = 0
    laws: dict[str, int] = field(default_factory=dict)
    """How often outputs were compared by each law that some target declares."""
    coverage: dict[str, Ledger] = field(default_factory=dict)
    """What judged cases have visited, by op."""
    reach: Mapping[str, Reach] = field(default_factory=dict)
    """What the targets can visit, by op, and so what is a coverage gap."""

    def cover(self, case: Case, targets: Sequence[str]) -> None:
        """Count what a case visits that was judged on these targets, and them."""
        if case.op not in self.coverage:
            self.coverage[case.op] = Ledger(self.reach.get(case.op, Reach()).space)
        self.coverage[case.op].see([*case.origin.labels, *(("target", target) for target in targets)])

    @property
    def judged(self) -> int:
        """Judged runs: one case on one target."""
        return sum(target.judged for target in self.targets.values())

    @property
    def findings(self) -> int:
        return sum(target.findings for target in self.targets.values())

    @property
    def broken(self) -> bool:
        """Whether some kernel cannot be built or started."""
        return any(target.broken for target in self.targets.values())

    @property
    def gave_up(self) -> int:
        return sum(target.gave_up for target in self.targets.values())

    @property
    def dtypes(self) -> tuple[str, ...]:
        """dtypes of which a run passed, widest first."""
        seen = {dtype for target in self.targets.values() for dtype in target.worst}
        return tuple(sorted(seen, key=lambda dtype: (-ITEMSIZE[dtype], dtype)))

    def worst(self, dtype: str) -> float:
        """The largest passing err/budget in that dtype, over all targets."""
        return max(
            (target.worst[dtype].ratio for target in self.targets.values() if dtype in target.worst), default=0.0
        )


def whereabouts(case: Case) -> str:
    """A case in a few words, e.g. '3x1041 spike'."""
    tensor = next(iter(case.inputs.values()))
    shape = "x".join(str(extent) for extent in tensor.layout.shape)
    return f"{shape} {case.origin.recipe}"
