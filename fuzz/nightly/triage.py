"""Shrinking and explaining what a night has found, within its share of the night."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fuzz.case import CaseError
from fuzz.execute.pool import WorkerPool
from fuzz.execute.target import Target
from fuzz.nightly.book import Kept, NightBook
from fuzz.nightly.recorder import Place
from fuzz.nightly.schedule import TRIAGE_SHARE
from fuzz.nightly.stopping import Stopping
from fuzz.run.alone import replayed
from fuzz.store import casefile
from fuzz.triage.examination import SECONDS, Allowance, examine

_LEAST_S = 2.0
"""with less than that nothing is begun."""


@dataclass
class NightTriage:
    """Examines every bucket once, and again when a smaller case is found."""

    pool: WorkerPool
    targets: Sequence[Target]
    book: NightBook
    place: Place
    stopping: Stopping
    limit_s: float
    """of the whole night."""

    def examine_pending(self) -> bool:
        """Settle the buckets that are waiting, as far as there is time for it; whether there was any."""
        names = [name for name, kept in self.book.kept.items() if kept.pending and kept.path is not None]
        for number, name in enumerate(names):
            left = min(TRIAGE_SHARE * self.limit_s - self.place.triage_s, TRIAGE_SHARE * self.stopping.left)
            seconds = min(SECONDS, left / (len(names) - number))
            if seconds < _LEAST_S:
                return number > 0
            began = time.monotonic()
            self._examine(name, self.book.kept[name], seconds)
            self.place.triage_s += time.monotonic() - began
        return bool(names)

    def _examine(self, name: str, kept: Kept, seconds: float) -> None:
        kept.pending = False
        if kept.case is None or kept.judgement is None:
            self._recall(kept)
        if kept.case is None or kept.judgement is None or kept.judgement.target not in self.book.targets:
            return
        allowance = Allowance(seconds, stop=lambda: self.stopping.wanted)
        explained = examine(self.pool, self.targets, kept.case, kept.judgement, allowance)
        if explained.whole or not self.stopping.wanted:  # what was cut short is done again after --resume
            self.book.settle(name, explained)

    def _recall(self, kept: Kept) -> None:
        """The case and the judgement of a finding of an earlier session, where it still fails."""
        assert kept.path is not None
        try:
            case, found = casefile.load(kept.path)
        except CaseError:
            return
        by_id = self.book.targets
        if found is None or found.target not in by_id or found.history:
            return
        seen = replayed(self.pool, by_id, case, found.law).get(found.target)
        if seen is not None and seen.judgement.verdict.is_finding:
            kept.case, kept.judgement, kept.seed = case, seen.judgement, found.run_seed
