"""What verbs do with findings that may need earlier calls: each is tried again in new processes."""

from __future__ import annotations

from typing import Protocol

from fuzz.adapters.target import Target
from fuzz.base.verdict import Verdict
from fuzz.execute.pool import WorkerPool
from fuzz.findings.book import Bucket, FindingBook
from fuzz.triage.fresh import FreshProcess
from fuzz.triage.history import Recognised, need_line, recognise
from fuzz.uses.search.calls import Calls


class Runs(Protocol):
    """Knows its targets."""

    def target(self, name: str) -> Target: ...


def note_histories(book: FindingBook, run: Runs, calls: Calls, case_limit: float | None) -> None:
    """Say of each bucket whether its case fails alone as well, and keep with it the calls that it needs.

    A timeout was already seen alone.
    """
    for bucket in book.buckets.values():
        if bucket.verdict != Verdict.TIMEOUT.value:
            found = _recognised(bucket, run.target(bucket.judgement.target), calls, case_limit)
            if found.history:
                book.keep_history(bucket, found.history)
            bucket.note = need_line(found, bucket.case) or bucket.note


def _recognised(bucket: Bucket, target: Target, calls: Calls, case_limit: float | None) -> Recognised:
    with WorkerPool([target], limit=case_limit, bounded=False) as pool:
        trial = FreshProcess(pool, target, bucket.case, bucket.judgement)
        return recognise(trial.fails, bucket.case, calls.before(bucket.judgement))
