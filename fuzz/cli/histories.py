"""What verbs do with findings that may need earlier calls: each is tried again in new processes."""

from __future__ import annotations

from typing import Protocol

from fuzz.execute.pool import WorkerPool
from fuzz.execute.target import Target
from fuzz.run.alone import FreshProcess
from fuzz.run.calls import Calls
from fuzz.run.findings import Bucket, FindingBook
from fuzz.triage.history import Need, Recognised, history_line, recognise
from fuzz.verdict import Verdict


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
            bucket.note = _note(found, bucket) or bucket.note


def _recognised(bucket: Bucket, target: Target, calls: Calls, case_limit: float | None) -> Recognised:
    with WorkerPool([target], limit=case_limit, bounded=False) as pool:
        trial = FreshProcess(pool, target, bucket.case, bucket.judgement)
        return recognise(trial.fails, bucket.case, calls.before(bucket.judgement))


def _note(found: Recognised, bucket: Bucket) -> str:
    if found.need is Need.HISTORY:
        how = "needs history: passes alone in a fresh process, fails there"
        return f"{history_line(found.history, bucket.case, how)}; so the kernel keeps state from call to call"
    if found.need is Need.UNKNOWN:
        after = f", and after the {found.calls} calls before it that are kept" if found.calls else ""
        return (
            f"does not repeat: passes alone in a fresh process{after}; it comes and goes, or needs still earlier calls"
        )
    return ""
