"""Shrinking and explaining what a run found, with a line that says how it goes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console

from fuzz.execute.pool import WorkerPool
from fuzz.execute.target import Target
from fuzz.run.findings import FindingBook
from fuzz.run.interruption import Interruption
from fuzz.triage.examination import Allowance, examine

_FINDINGS = 4
"""findings that get all the time they may have; with more of them each gets less."""


def explain_findings(
    book: FindingBook, pool: WorkerPool, targets: Sequence[Target], seconds: float, err: Console
) -> None:
    """Examine every bucket of the book, whatever stopped the run; Ctrl-C keeps what is known by then."""
    buckets = [bucket for bucket in book.buckets.values() if not bucket.note]
    end = time.monotonic() + seconds * min(len(buckets), _FINDINGS)
    if buckets:
        many = f"{len(buckets)} findings" if len(buckets) > 1 else "the finding"
        err.print(f"shrinking and explaining {many}, {seconds:.0f} s each at most; Ctrl-C skips the rest")
    with Interruption("what is known of the findings is shown") as interruption, err.status("") as status:
        for number, bucket in enumerate(buckets, start=1):
            left = (end - time.monotonic()) / (len(buckets) - number + 1)
            head = f"shrinking {number} of {len(buckets)} ({bucket.kernel} {bucket.verdict})"
            allowance = Allowance(
                min(seconds, max(left, 1.0)),
                stop=lambda: interruption.wanted,
                say=lambda line, head=head: status.update(f"{head}: {line}"),  # type: ignore[misc]
            )
            if interruption.wanted:
                return
            status.update(head)
            book.settle(bucket, examine(pool, targets, bucket.case, bucket.judgement, allowance))
