"""A replay of cases: kernels run on them, and are judged by the oracle of their reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Outcome
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import Pool
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.judge.values import ORACLES
from fuzz.core.laws.registry import with_twins
from fuzz.findings.tally import TargetTally, note_open
from fuzz.references.replay.cases import Comparison, Meant, ReplayCase, width_of
from fuzz.references.replay.oracle import ReplayOracle, case_of
from fuzz.references.replay.ranges import Came
from oracles.op import Op

_PROBED_ONE_IN = 4


@dataclass(frozen=True)
class ReplayFailure:
    """A case that a kernel gets wrong."""

    case: ReplayCase
    verdict: Verdict
    words: str
    found: Comparison

    @property
    def record(self) -> dict[str, Any]:
        """The failure as a ruling has it."""
        place, got, expected, allowed = self.found.place or ("", "", "", "")
        return {
            "verdict": self.verdict.name, "said": self.words, "case": self.case.text,
            "shapes": {name: list(each.shape) for name, each in self.case.arrays.items()},
            "recipes": dict(self.case.recipes), "dtype": self.case.dtype,
            "place": place, "got": got, "expected": expected, "allowed": allowed,
        }  # fmt: skip


@dataclass
class Run:
    """Cases on their way, and what comes of them."""

    meant: Meant
    op: Op
    targets: Sequence[Target]
    laws: tuple[str, ...]
    seed: int
    lines: dict[str, TargetTally] = field(default_factory=dict)
    smallest: dict[str, ReplayFailure] = field(default_factory=dict)
    """The smallest case that each target fails."""
    probes: dict[str, int] = field(default_factory=dict)
    floors: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cases: int = 0
    elements: int = 0
    """How many elements were judged of runs that passed."""
    came: Came = field(default_factory=Came)

    def __post_init__(self) -> None:
        self.lines = {each.id: TargetTally(each.id, each.kernel.name) for each in self.targets}
        self.probes = dict.fromkeys(self.laws, 0)
        self._oracles = dict[str, ReplayOracle]()
        """Those of the last cases, by their inputs: a replay takes twenty runs."""
        ORACLES[self.op.name] = self._oracle

    def batch(self, pool: Pool, drawn: Sequence[ReplayCase]) -> None:
        """Run cases and their twins; the reference is replayed while workers are at them."""
        plain, cases, by_id = dict[str, ReplayCase](), list[Case](), {each.id: each for each in self.targets}
        for each in drawn:
            self.cases += 1
            self.came.note(each.arrays, each.dtype)
            cases.append(case_of(each, self.meant.outputs(each), self.op, self.seed, self.cases))
            plain[cases[-1].digest] = each
        entries = with_twins(cases, self.laws, _PROBED_ONE_IN)
        running = pool.submit([each.case for each in entries])
        self._oracles.clear()
        for entry in entries:
            oracle = self._oracle(entry.case)
            for output in (oracle.replays or ()) if entry.check is None else ():
                with np.errstate(all="ignore"):
                    shares = width_of(output, oracle.dtype) / np.abs(output.compared)
                self.floors[oracle.dtype] += shares[np.isfinite(shares)].tolist()
        judge, of = None, drawn[0]
        for entry, outcomes in zip(entries, running.outcomes(), strict=True):
            judge = EntryJudge(entry, outcomes, judge)
            if entry.check is None:
                of = plain[entry.case.digest]
            else:
                self.probes[entry.check.name] += 1
            for name in outcomes:
                self._note(of, judge, by_id[name])

    def _oracle(self, case: Case) -> ReplayOracle:
        key = replace(case, params={}).digest
        return self._oracles.get(key) or self._oracles.setdefault(key, ReplayOracle(case, self.meant))

    def _note(self, of: ReplayCase, judge: EntryJudge, target: Target) -> None:
        """Judge a run. Of calls in other ways only what is wrong counts."""
        judgement, line, entry = judge.judge(target), self.lines[target.id], judge.entry
        if judgement.verdict is Verdict.TIMEOUT and self.meant.own:  # extents that come with a problem may take long
            judgement = replace(judgement, verdict=Verdict.NOT_RUN)
        if entry.check is None or judgement.verdict.is_finding:
            line.count(entry.case, judgement)
        if entry.check is None and judgement.worst is not None:
            seen = judge.decided(target)
            note_open(line.decided, {(name, of.dtype): int(not each) for name, each in seen.items()})
        if entry.check is None and judgement.verdict is Verdict.PASS:
            self.elements += _compared(judge, judge.outcomes[target.id]).judged
        known = self.smallest.get(target.id)
        if judgement.verdict.is_finding and (known is None or of.elements < known.case.elements):
            self.smallest[target.id] = _failure(of, judge, judgement)


def _failure(of: ReplayCase, judge: EntryJudge, judgement: Judgement) -> ReplayFailure:
    found = Comparison("") if judgement.outcome is None else _compared(judge, judgement.outcome)
    verdict, reason = judgement.verdict, judgement.reason
    known = {Verdict.FAIL_NUMERIC: found.wrong, Verdict.FAIL_PROCESS: reason}
    words = known.get(verdict, f"{verdict.name}: {reason}")
    if judgement.law is not None:
        words = f"breaks {judgement.law.name}\n    {reason}"
    return ReplayFailure(of, verdict, words, found)


def _compared(judge: EntryJudge, outcome: Outcome) -> Comparison:
    names = judge.entry.case.outputs
    if not isinstance(judge.oracle, ReplayOracle) or not {*names} <= {*outcome.outputs}:
        return Comparison("")
    return judge.oracle.compared(tuple(outcome.outputs[name] for name in names))
