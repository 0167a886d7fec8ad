"""Measuring targets before their search, and judging some of its cases again afterwards."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fuzz.campaign.session import Session
from fuzz.contracts.measuring import measured
from fuzz.contracts.record import Measured
from fuzz.contracts.runs import TargetRun, gathered
from fuzz.contracts.second_look import contradicted, right_as, wrong
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.draw import Frame
from fuzz.core.execute.batch import Pool
from fuzz.core.laws.registry import Entry
from fuzz.findings.book import FindingBook

_FURTHER = "off by more than this explains where {}; right with sums in any order, and casts or none"
_CASES, _FAILING = 64, 32
"""The number of cases of a search that are run again, and of the smallest failing runs that are judged again."""


@dataclass
class Measuring:
    """The measurements and notes on targets, by their ids. They are information, and by themselves never make a kernel
    fail."""

    pool: Pool
    targets: Sequence[Target]
    seed: int
    records: dict[str, Measured] = field(default_factory=dict)
    right_as: dict[str, str] = field(default_factory=dict)
    _runs: dict[str, Sequence[TargetRun]] = field(default_factory=dict, repr=False)
    """The runs that are looked at again, by target."""

    def measure(self) -> None:
        """Measure all targets that run."""
        for target in self.targets:
            if not isinstance(self.pool.statuses.get(target.id), NotRun):
                found = measured(self.pool, target, target.contract)
                self.records[target.id] = replace(found, configuration=target.configuration.text)

    def look_ahead(self, max_cases: int) -> None:
        """Run the cases that `ended` will need, before the search ends."""
        for target in self.targets:
            if target.id in self.records and self.records[target.id].tightens:
                self._run(target, max_cases, math.inf)

    @property
    def text(self) -> str:
        """A line for each target."""
        return "\n  ".join(self.line(each) for each in self.records)

    def line(self, target: str) -> str:
        """Return the line of one target: what was measured, and if it is wrong, in which precision it is right."""
        named = f"{target} " if len(self.records) > 1 else ""
        more = self.right_as.get(target, "")
        return f"{named}{self.records[target].text}{f'; {more}' if more else ''}"

    def ended(self, session: Session, book: FindingBook, max_cases: int | None) -> None:
        """Run cases of the search again. Find the lower precision in which a failing target is right. Judge a passing
        target with designed cases under the measured contract, and report a case that contradicts it."""
        failing = {bucket.judgement.target for bucket in book.buckets.values() if bucket.finding is not None}
        ends = time.monotonic() + (session.limits.max_time or math.inf)
        for target in self.targets:
            if target.id not in self.records or session.interruption.wanted:
                continue
            if target.id not in failing and not self.records[target.id].tightens:
                continue
            runs = self._run(target, max_cases, ends)
            if target.id in failing:
                smallest = sorted(runs, key=lambda run: run.case.elements)[:_FAILING]
                self.right_as[target.id] = right_as(smallest, target.contract)
                continue
            if (case := wrong(target, runs, lambda: time.monotonic() > ends)) is not None:
                session.runner([target], search=False).run_entries([[Entry(case)]])
                continue
            case = contradicted(self.pool, target, self.records[target.id], runs, lambda: time.monotonic() > ends)
            if case is not None:
                where = ", ".join(f"{dim} = {size}" for dim, size in Frame(case).sizes.items())
                self.right_as[target.id] = _FURTHER.format(where)

    def _run(self, target: Target, max_cases: int | None, ends: float) -> Sequence[TargetRun]:
        if target.id not in self._runs:
            most = min(_CASES, max_cases or _CASES)
            found = gathered(self.pool, target, self.seed, most, lambda: time.monotonic() > ends)
            self._runs[target.id] = found
        return self._runs[target.id]
