"""What a check says when it does not pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuzz.adapters.target import Target
from fuzz.base.attestation import NotRun
from fuzz.execute.pool import Pool
from fuzz.findings.book import Bucket, FindingBook
from fuzz.findings.tally import Tally
from fuzz.report.failure import Provenance, failure_text, told_lines
from fuzz.uses.check.plan import Plan


def report(
    tally: Tally, book: FindingBook, pool: Pool, targets: Sequence[Target], todo: Plan, pack_option: tuple[str, ...]
) -> str:
    """What is wrong, in full; '' where everything that ran has passed, and something ran."""
    if book.buckets:
        by_id: Mapping[str, Target] = {target.id: target for target in targets}
        origin = Provenance(todo.seed, todo.command, pack_option)
        texts = [_text(bucket, by_id[bucket.judgement.target], origin) for bucket in book.buckets.values()]
        return "\n\n".join([*texts, *([book.trouble] if book.trouble else [])])
    if tally.gave_up:
        return f"ORACLE_GAVE_UP: {tally.gave_up} runs cannot be judged; {todo.command}"
    if not tally.judged:
        return f"NOTHING RAN: {targets[0].id}: {_why_nothing(tally, pool)}"
    return ""


def _text(bucket: Bucket, target: Target, origin: Provenance) -> str:
    """The failure as every verb tells it. A kernel of no pack is unknown to `repro`: its case goes to the check."""
    path = bucket.path if origin.pack_option else None
    text = failure_text(bucket.case, bucket.judgement, target, bucket.others, path, origin)
    text = "\n".join([text, *told_lines(() if bucket.explained is None else bucket.explained.lines())])
    text += f"\n  note          {bucket.note}" if bucket.note else ""
    if bucket.path is None or path is not None:
        return text
    return f"{text}\n  case file     {bucket.path}, to be run first by fuzz.check(..., cases=[...])"


def _why_nothing(tally: Tally, pool: Pool) -> str:
    reasons = [status.reason for status in pool.statuses.values() if isinstance(status, NotRun)]
    return reasons[0] if reasons else f"none of {tally.cases} cases fits what the kernel takes"
