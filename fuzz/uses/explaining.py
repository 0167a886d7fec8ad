"""Shrinking and explaining what a run found, with a line that says how it goes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from fuzz.adapters.target import Target
from fuzz.execute.pool import WorkerPool
from fuzz.findings.book import FindingBook
from fuzz.findings.desk import Bounds, Desk
from fuzz.uses.search.stopping import Interruption

_FINDINGS = 4
"""findings that get all the time they may have; with more of them each gets less. Chosen, not measured."""
_LEAST_S = 2.0
"""with fewer seconds left than that a finding is shown as it is. Chosen, not measured."""


def explain_findings(
    book: FindingBook, pool: WorkerPool, targets: Sequence[Target], seconds: float, err: Console
) -> None:
    """Sort the book's findings by their causes, whatever stopped the run; Ctrl-C keeps what is known by then."""
    desk = Desk(pool, targets, book, Bounds(_LEAST_S, seconds, option="--explain-time"))
    if not desk.waiting:
        return
    allowed = seconds * min(len(desk.waiting) + 1, _FINDINGS)
    err.print(f"shrinking and explaining the findings, {allowed:.0f} s at most; Ctrl-C skips the rest")
    with Interruption("what is known of the findings is shown") as interruption, err.status("") as status:
        desk.stop, desk.say = lambda: interruption.wanted, status.update
        desk.explain_all(allowed)
