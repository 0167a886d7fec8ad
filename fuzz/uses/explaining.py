"""Shrinking and explaining what a run found, with a line that says how it goes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.status import Status

from fuzz.adapters.target import Target
from fuzz.execute.pool import WorkerPool
from fuzz.findings.attribution import note_unexplained, piles_of, settle
from fuzz.findings.book import FindingBook
from fuzz.triage.examination import Allowance, Explained, examine
from fuzz.triage.rule import Rule
from fuzz.triage.sorting import Sighting
from fuzz.uses.search.interruption import Interruption

_FINDINGS = 4
"""findings that get all the time they may have; with more of them each gets less."""
_LEAST_S = 2.0
"""with less time left than that a finding is shown as it is."""


@dataclass
class _Desk:
    """Examines one finding after the other while there is time."""

    pool: WorkerPool
    targets: Sequence[Target]
    seconds: float
    end: float
    interruption: Interruption
    status: Status
    stateful: frozenset[str]
    """kernels of which a failure needs earlier calls."""
    waiting: int
    """piles that are still to be looked at."""
    number: int = 0

    def finished(self) -> None:
        """A pile is done."""
        self.waiting -= 1

    def examine(self, sighting: Sighting, known: Sequence[Rule]) -> Explained | None:
        left = self.end - time.monotonic()
        if self.interruption.wanted or left < _LEAST_S:
            return None
        self.number += 1
        head = f"shrinking {self.number} of {max(self.number, self.number - 1 + self.waiting)}"
        self.status.update(head)
        allowance = Allowance(
            min(self.seconds, max(left / max(self.waiting, 1), _LEAST_S)),
            stop=lambda: self.interruption.wanted,
            say=lambda line: self.status.update(f"{head}: {line}"),
        )
        kernel = next(t.kernel.name for t in self.targets if t.id == sighting.judgement.target)
        fresh = kernel in self.stateful
        return examine(self.pool, self.targets, sighting.case, sighting.judgement, allowance, known, fresh=fresh)


def explain_findings(
    book: FindingBook, pool: WorkerPool, targets: Sequence[Target], seconds: float, err: Console
) -> None:
    """Sort the book's findings by their causes, whatever stopped the run; Ctrl-C keeps what is known by then."""
    piles = piles_of(book)
    if not piles:
        return
    allowed = seconds * min(len(piles) + 1, _FINDINGS)
    err.print(f"shrinking and explaining the findings, {allowed:.0f} s at most; Ctrl-C skips the rest")
    by_id = {target.id: target for target in targets}
    stateful = frozenset(bucket.kernel for bucket in book.buckets.values() if bucket.history)
    with Interruption("what is known of the findings is shown") as interruption, err.status("") as status:
        desk = _Desk(pool, targets, seconds, time.monotonic() + allowed, interruption, status, stateful, len(piles))
        settle(book, piles, by_id, desk.examine, desk.finished)
        if desk.end - time.monotonic() < _LEAST_S and not interruption.wanted:
            note_unexplained(book, "--explain-time")
