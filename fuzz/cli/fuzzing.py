"""What `kernelfuzz run` does."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fuzz.cli.exits import Exit
from fuzz.cli.failures import UsageError
from fuzz.cli.starting import not_running, select_targets, started
from fuzz.execute.target import Target
from fuzz.pack import built_in, load
from fuzz.report import console
from fuzz.report.coverage import print_coverage
from fuzz.report.failure import failure_text
from fuzz.report.progress import Progress, minutes
from fuzz.report.records import RecordLog
from fuzz.report.table import run_notes, run_table
from fuzz.run.findings import Bucket, FindingBook
from fuzz.run.runner import Limits, Runner
from fuzz.run.tally import Tally
from fuzz.select import globs, matches_any


@dataclass(frozen=True)
class Request:
    """The options of `kernelfuzz run`."""

    max_time: float | None
    max_cases: int | None
    seed: int | None
    op: str
    targets: tuple[str, ...]
    keyword: str | None
    require: tuple[str, ...]
    pack: Path | None
    json: Path | None
    output: Path
    coverage: bool
    jobs: int


def fuzz(request: Request) -> Exit:
    """Run until a limit is reached; print the table and every finding; return the exit code."""
    out, err = console.results(), console.progress()
    pack = load(request.pack or built_in())
    targets = select_targets(pack.kernels, request.op, request.targets, request.keyword)
    seed = secrets.randbelow(2**32) if request.seed is None else request.seed
    book = FindingBook(request.output, seed)
    with ExitStack() as stack:
        log = stack.enter_context(_open_log(request.json)) if request.json else None
        pool = stack.enter_context(started(targets, request.jobs, err))
        if log:
            log.header(seed, pool.statuses)
        runner = Runner(pool, targets, Limits(request.max_time, request.max_cases), book)
        for target, reason in not_running(pool).items():
            runner.tally.targets[target].not_run_reason = reason
        progress = stack.enter_context(Progress(err, runner.tally, request.max_time, request.max_cases))
        runner.observers = [progress, log] if log else [progress]
        began = time.monotonic()
        with runner.interruption:
            _search(runner, targets, seed)
        elapsed = time.monotonic() - began
        if log:
            for bucket in book.buckets.values():
                log.finding(bucket, bucket_text(bucket, runner.target(bucket.judgement.target), seed))
            log.summary(runner.tally, elapsed)
        restarts = dict(pool.restarts)
    _report(out, runner.tally, book, targets, seed, elapsed)
    if request.coverage:
        print_coverage(out, runner.tally)
    troubles = [trouble for trouble in (book.trouble, log.trouble if log else "") if trouble]
    for line in (*_restarted(restarts), *troubles):
        err.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)
    code = exit_code(runner.tally, request.require, err, interrupted=runner.interruption.wanted)
    return Exit.INTERNAL if troubles and code is Exit.OK else code


def _restarted(restarts: Mapping[str, int]) -> list[str]:
    return [
        f"{name}: its worker was killed from outside or hung {count} times and was restarted; its cases were run again"
        for name, count in restarts.items()
    ]


def _open_log(path: Path) -> RecordLog:
    try:
        return RecordLog(path)
    except OSError as error:
        raise UsageError(f"--json {path}: cannot be written: {error.strerror}") from error


def _search(runner: Runner, targets: Sequence[Target], seed: int) -> None:
    """Search every op in turn, each with the same share of the limits."""
    ops = sorted({target.kernel.op for target in targets})
    for op in ops:
        runner.run(op, seed, share=1 / len(ops))


def _report(
    out: Console, tally: Tally, book: FindingBook, targets: Sequence[Target], seed: int, elapsed: float
) -> None:
    by_id = {target.id: target for target in targets}
    out.print(run_table(tally))
    for note in run_notes(tally):
        out.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    for bucket in book.buckets.values():
        out.print()
        out.print(
            bucket_text(bucket, by_id[bucket.judgement.target], seed), highlight=False, markup=False, soft_wrap=True
        )
    out.print()
    rate = tally.judged / elapsed if elapsed else 0.0
    found = f"{tally.findings:,} findings in {len(book.buckets)} buckets" if tally.findings else "nothing found"
    out.print(
        f"{found}: {tally.judged:,} judged runs of {tally.cases:,} cases in {minutes(elapsed)} ({rate:,.0f}/s), "
        f"seed {seed}",
        highlight=False,
        soft_wrap=True,
    )


def bucket_text(bucket: Bucket, target: Target, seed: int) -> str:
    """The failure text of a bucket, with how often and where it was seen."""
    text = failure_text(bucket.case, bucket.judgement, target, bucket.others, bucket.path, seed)
    seen = f"  seen          {bucket.count:,} times on {len(bucket.targets)} targets; this is the smallest case"
    return f"{text}\n{seen}"


def exit_code(tally: Tally, require: Sequence[str], err: Console, *, interrupted: bool) -> Exit:
    """Findings first, then what was required and did not run, then what could not be judged."""
    missing = _required_but_missing(tally, globs(require))
    for line in missing:
        err.print(line, style="bold red", highlight=False, markup=False, soft_wrap=True)
    if tally.findings:
        return Exit.FINDINGS
    if missing:
        return Exit.REQUIRED_NOT_RUN
    if interrupted:
        return Exit.INTERRUPTED
    if tally.gave_up:
        return Exit.ORACLE_GAVE_UP
    return Exit.OK if tally.judged else Exit.NOTHING_RAN


def _required_but_missing(tally: Tally, patterns: Sequence[str]) -> list[str]:
    lines = []
    for pattern in patterns:
        matching = [target for target in tally.targets.values() if matches_any(target.target, [pattern])]
        if not matching:
            lines.append(f"required target {pattern}: no such target; see: kernelfuzz list targets")
        lines += [
            f"required target {target.target} did not run: {target.not_run_reason or 'no case fits it'}"
            for target in matching
            if target.judged == 0
        ]
    return lines
