"""The outcome of a use: what a check, run, gate, night or judgement was asked to judge, what it judged, and why not the
rest. Every report prints it, and the process exits with its code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fuzz.core.base.exits import ENDINGS, Exit
from fuzz.findings.tally import LATE, NO_TURN, Decided, Largest, Tally, never_decided, note_open, widest_first

NO_CASE = "no case that was drawn fits it"


@dataclass(frozen=True)
class UseOutcome:
    """The outcome of a use, without its findings."""

    judged: Mapping[str, int]
    """The number of runs with a verdict, by kernel; kernels without any are left out."""
    unjudged: Mapping[str, str]
    """The reason why a kernel has no run with a verdict, by kernel."""
    broken: tuple[str, ...] = ()
    """The kernels that cannot be built or started, which counts as failing."""
    failing: bool = False
    """Whether a kernel fails in a way that is not known."""
    complaints: tuple[str, ...] = ()
    """Lines about other things that fail a gate: stale entries, lost accuracy."""
    late: tuple[str, ...] = ()
    """The kernels for which the search had no time."""
    not_run: int = 0
    """The number of runs without a verdict."""
    why_not_run: str = ""
    """The reason of the target with most of these runs."""
    undecided: int = 0
    """The number of runs that the oracle gave up on."""
    never_decided: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The outputs of which a wrong value could not have been seen, in any dtype or in one of them, by kernel."""
    missing: tuple[str, ...] = ()
    """A line for each target or kernel that was required to run and did not."""
    errors: tuple[str, ...] = ()
    """A line for each internal error; after one, all other results are doubtful."""
    unsaved: tuple[str, ...] = ()
    """A line for each file that could not be written."""
    interrupted: bool = False
    largest: Mapping[str, Largest] = field(default_factory=dict)
    """The largest extents, rows and elements of judged cases, by the dtype of the first input."""
    never: tuple[str, ...] = ()
    """The ways of calling in which nothing ran."""
    idle: bool = False
    """Whether there was nothing to judge, since no kernel depends on what a change touches. This passes."""

    @property
    def code(self) -> Exit:
        """The exit code. Internal errors come first, then findings, then what was not judged."""
        if self.errors or self.unsaved:
            return Exit.INTERNAL
        if self.failing or self.broken or self.complaints:
            return Exit.FINDINGS
        if self.missing:
            return Exit.REQUIRED_NOT_RUN
        if self.interrupted:
            return Exit.INTERRUPTED
        if self.undecided or self.never_decided:
            return Exit.ORACLE_GAVE_UP
        if not self.judged:
            return Exit.OK if self.idle else Exit.NOTHING_RAN
        return Exit.MOSTLY_NOT_JUDGED if self.is_mostly_unjudged else Exit.OK

    @property
    def passed(self) -> bool:
        """Whether everything that was asked for was judged sufficiently, and nothing failed."""
        return self.code is Exit.OK

    @property
    def ending(self) -> str:
        """The first words of a report."""
        return ENDINGS[self.code]

    @property
    def is_mostly_unjudged(self) -> bool:
        """Whether most runs have no verdict, or most kernels had no turn, so that finding nothing means little."""
        return self.not_run > sum(self.judged.values()) or len(self.late) > len(self.judged)

    @property
    def record(self) -> Mapping[str, Any]:
        """The outcome as JSON reports have it."""
        return {
            "ok": self.passed,
            "exit": self.code,
            "ending": self.ending,
            "asked": sorted({*self.judged, *self.unjudged, *self.broken}),
            "not_judged": dict(self.unjudged),
            "runs_without_verdict": self.not_run,
            "undecided": self.undecided,
            "never_decided": {kernel: list(outputs) for kernel, outputs in self.never_decided.items()},
            "missing": list(self.missing),
            "errors": list(self.errors),
            "unsaved": list(self.unsaved),
            "interrupted": self.interrupted,
            "largest": {dtype: asdict(self.largest[dtype]) for dtype in widest_first(self.largest)},
            "never_ran": list(self.never),
        }


def outcome_of(
    tally: Tally, *, failing: bool = False, complaints: Sequence[str] = (), missing: Sequence[str] = (),
    errors: Sequence[str] = (), unsaved: Sequence[str] = (), interrupted: bool = False, idle: bool = False,
    usual: str = NO_CASE,
) -> UseOutcome:  # fmt: skip
    """Return a use's outcome from its counts; targets that judged nothing without a reason get the reason `usual`."""
    lines = tally.targets.values()
    judged, unjudged, decided = Counter[str](), dict[str, str](), dict[str, Decided]()
    for line in lines:
        judged[line.kernel] += line.judged
        note_open(decided.setdefault(line.kernel, {}), line.decided)
    silent = [line for line in lines if not judged[line.kernel]]
    for line in silent:
        unjudged.setdefault(line.kernel, line.not_run_reason or usual)
    never = {kernel: never_decided(each) for kernel, each in decided.items()}
    broken = tuple(dict.fromkeys(line.kernel for line in lines if line.broken))
    late = dict.fromkeys(line.kernel for line in silent if line.not_run_reason in (NO_TURN, LATE))
    worst = max(lines, key=lambda line: line.not_run, default=None)
    return UseOutcome(
        +judged, {kernel: why for kernel, why in unjudged.items() if kernel not in broken}, broken, failing,
        tuple(complaints), tuple(late), tally.not_run, worst.not_run_reason if worst is not None else "",
        tally.gave_up, {kernel: names for kernel, names in never.items() if names}, tuple(missing), tuple(errors),
        tuple(unsaved), interrupted, tally.largest, (*["several threads"] * (tally.threads == 1), *tally.never), idle,
    )  # fmt: skip
