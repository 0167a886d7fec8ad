"""Runs of solutions on cases for which the reference itself is replayed in float64."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Outcome
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import Pool
from fuzz.core.judge.judge import Judge
from fuzz.core.judge.words import changes_text
from fuzz.core.laws.registry import Entry, with_twins
from fuzz.findings.tally import Decided, never_decided, note_open
from fuzz.references.rerun import Replayed
from fuzz.tasks.check.replay_cases import Comparison, Meant, ReplayCase, compared, width_of
from fuzz.tasks.check.replay_ranges import Came
from fuzz.tasks.judge.nameless import arrays_of, case_of, returned
from fuzz.tasks.judge.ruling import Said
from oracles.op import Op

_PROBED_ONE_IN = 4
Wanted = Sequence[Replayed] | None
_NOTHING = Comparison("")


@dataclass
class Line:
    """What is known of a target."""

    judged: int = 0
    failing: int = 0
    undecided: int = 0
    not_run: int = 0
    largest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    worst: tuple[ReplayCase, Verdict, str, Comparison] | None = None
    """The smallest case that failed."""
    reason: str = ""
    broken: bool = False
    decided: Decided = field(default_factory=dict)
    """In how many cases no element of an output was judged, by each that was compared; 0 if one was in any."""

    def failed(self, case: ReplayCase, verdict: Verdict, words: str, found: Comparison = _NOTHING) -> None:
        """Note a run that is wrong."""
        self.judged += 1
        self.failing += 1
        if self.worst is None or case.elements < self.worst[0].elements:
            self.worst = case, verdict, words, found

    def said(self) -> Said:
        """The verdict."""
        if self.failing or self.broken:
            return "wrong"
        if not (self.judged or self.undecided):
            return "did not run"
        open_ = self.undecided + self.not_run > self.judged or bool(never_decided(self.decided))
        return "undecided" if open_ else "right"


@dataclass
class Run:
    """Cases on their way, and what comes of them."""

    meant: Meant
    op: Op
    targets: Sequence[Target]
    laws: tuple[str, ...]
    seed: int
    lines: dict[str, Line]
    probes: dict[str, int]
    floors: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cases: int = 0
    came: Came = field(default_factory=Came)

    def batch(self, pool: Pool, drawn: Sequence[ReplayCase]) -> None:
        """Run cases and their twins; the reference is replayed while workers are at them."""
        plain = dict[str, ReplayCase]()
        cases = list[Case]()
        for each in drawn:
            self.cases += 1
            self.came.note(each.arrays, each.dtype)
            cases.append(case_of(each, self.meant.outputs(each), self.op, self.seed, self.cases))
            plain[cases[-1].digest] = each
        entries = with_twins(cases, self.laws, _PROBED_ONE_IN)
        running = pool.submit([each.case for each in entries])
        replays: dict[str, Wanted] = {}
        for entry in entries:
            if (key := _inputs(entry.case)) not in replays:
                replays[key] = self.meant.replays(arrays_of(entry.case))
        usual: Mapping[str, Outcome] = {}
        of = drawn[0]
        for entry, outcomes in zip(entries, running.outcomes(), strict=True):
            of = plain.get(entry.case.digest, of)
            wanted = replays[_inputs(entry.case)]
            if entry.check is None:
                self._note_floor(of, wanted)
                usual = {name: one for name, one in outcomes.items() if self._judge(of, entry, wanted, one)}
                continue
            self.probes[entry.check.name] += 1
            for name, one in outcomes.items():
                if name in usual:
                    self._judge_twin(of, entry, wanted, one, usual[name])

    def _note_floor(self, of: ReplayCase, wanted: Wanted) -> None:
        for each in wanted or ():
            with np.errstate(all="ignore"):
                shares = width_of(each, of.dtype) / np.abs(each.compared)
            self.floors[of.dtype] += shares[np.isfinite(shares)].tolist()

    def _judge(self, of: ReplayCase, entry: Entry, wanted: Wanted, outcome: Outcome) -> bool:
        """Judge a run. Return whether it is right."""
        line, (verdict, words, found) = self.lines[outcome.target], _found(entry.case, wanted, outcome, of.dtype)
        note_open(line.decided, found.decided)
        if verdict is Verdict.PASS:
            line.judged += 1
            line.largest[of.dtype] = max(line.largest[of.dtype], found.ratio)
        elif verdict is Verdict.ORACLE_GAVE_UP:
            line.undecided += 1
        elif verdict is Verdict.NOT_RUN or (verdict is Verdict.TIMEOUT and self.meant.own):
            line.not_run += 1
            line.reason = line.reason or words  # extents that come with a problem may take long
        else:
            line.failed(of, verdict, words, found)
        return verdict is Verdict.PASS

    def _judge_twin(self, of: ReplayCase, entry: Entry, wanted: Wanted, outcome: Outcome, usual: Outcome) -> None:
        """Judge a call in another way. What is wrong about other values says nothing of the way, unless it is the
        answer to the old ones."""
        assert entry.check is not None
        probe = entry.check.law.probe
        verdict, _, found = _found(entry.case, wanted, outcome, of.dtype)
        silent = (Verdict.PASS, Verdict.NOT_RUN, Verdict.TIMEOUT, Verdict.ORACLE_GAVE_UP)
        if verdict in silent or probe is None or (probe.wrong is None and outcome.outputs != usual.outputs):
            return
        said = (probe.wrong or probe.stale)(entry.case)
        self.lines[outcome.target].failed(of, Verdict.FAIL_LAW, f"breaks {entry.check.name}\n    {said}", found)


def _found(case: Case, wanted: Wanted, outcome: Outcome, dtype: str) -> tuple[Verdict, str, Comparison]:
    """Return the verdict on a run, in words, and what was compared."""
    if wanted is None:
        return Verdict.ORACLE_GAVE_UP, "the reference raises where it is replayed", _NOTHING
    judge = Judge(case)
    verdict, words = judge.apart_from_values(outcome)
    if verdict is not None:
        return verdict, f"{verdict.name}: {words}", _NOTHING
    found = compared(wanted, returned(case, outcome.outputs), dtype, [*case.outputs])
    if found.wrong:
        return Verdict.FAIL_NUMERIC, found.wrong, found
    if outcome.changes:
        return Verdict.FAIL_PROCESS, changes_text(outcome.changes), found
    return (Verdict.PASS if found.judged else Verdict.ORACLE_GAVE_UP), "", found


def _inputs(case: Case) -> str:
    """A key of what it is called with."""
    return replace(case, params={}).digest
