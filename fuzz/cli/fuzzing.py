"""What `kernelfuzz run` does."""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fuzz.adapters.pack import built_in, load
from fuzz.adapters.target import Target
from fuzz.base.attestation import NotRun
from fuzz.base.errors import UsageError
from fuzz.base.selection import globs, matches_any
from fuzz.cli.exits import Exit
from fuzz.cli.explaining import explain_findings
from fuzz.execute.reach import Reserved
from fuzz.findings.book import FindingBook, book_in
from fuzz.findings.bucket import Bucket
from fuzz.findings.tally import Tally
from fuzz.judge.oracle_process import OracleProcess
from fuzz.laws.registry import declared
from fuzz.report import console
from fuzz.report.failure import Provenance, failure_text, told_lines
from fuzz.report.formats import parse, unwritable, write_reports
from fuzz.report.outline import Outline, TwinCount, failure_of, target_lines
from fuzz.report.progress import Progress, minutes
from fuzz.report.records import RecordLog, environment
from fuzz.report.totals import law_line, print_coverage, run_notes, run_table
from fuzz.uses.search.calls import CallLog, note_histories
from fuzz.uses.search.runner import Limits, Runner
from fuzz.uses.search.schedule import CountedSchedule, slow_targets_of, warm_up
from fuzz.uses.starting import not_running, select_targets, started

_SLOW_EVERY = 24
"""slow targets are given one batch of a search in so many, where quicker ones would have to wait for them."""
_FOR_ALL = 3
"""batches of each op that every target is given first: some kernels take few cases."""


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
    report: tuple[str, ...]
    output: Path
    coverage: bool
    explain_time: float | None
    """seconds for one finding; None: findings are shown as they are."""
    case_limit: float | None
    sanitize: bool
    jobs: int


def fuzz(request: Request) -> Exit:
    """Run until a limit is reached; print the table and every finding; return the exit code."""
    out, err = console.results(), console.progress()
    wanted, pack = parse(request.report), load(request.pack or built_in())
    targets = select_targets(pack.kernels, request.op, request.targets, request.keyword)
    nowhere = [p for p in globs(request.require) if not any(matches_any(target.id, [p]) for target in targets)]
    if nowhere:
        err.print(f"required target {nowhere[0]}: no such target; see: kernelfuzz list targets")
        return Exit.REQUIRED_NOT_RUN
    seed = secrets.randbelow(2**32) if request.seed is None else request.seed
    origin = _origin(request, seed)
    book = book_in(writable(request.output), seed)
    with ExitStack() as stack:
        oracle = stack.enter_context(OracleProcess(target.numerics for target in targets))
        log = stack.enter_context(open_log(request.json)) if request.json else None
        pool = stack.enter_context(started(targets, request.jobs, err, request.case_limit, sanitize=request.sanitize))
        if log:
            log.header(seed, pool.statuses)
        limits = Limits(request.max_time, request.max_cases)
        runner = Runner(pool, targets, limits, book, declared(pack.kernels), pack.kernels, oracle=oracle)
        for target, reason in not_running(pool).items():
            runner.tally.targets[target].not_run_reason = reason
        progress = stack.enter_context(Progress(err, runner.tally, request.max_time, request.max_cases))
        twins = TwinCount({target.id: target for target in targets})
        calls = CallLog(book.kept)
        runner.observers = [progress, twins, calls, *([log] if log else [])]
        began = time.monotonic()
        with runner.interruption:
            _search(runner, targets, seed, limits)
        elapsed = time.monotonic() - began
        note_histories(book, runner.target, calls, request.case_limit)
        if request.explain_time is not None:
            progress.stop()
            explain_findings(book, pool, targets, request.explain_time, err)
        if log:
            for bucket in book.buckets.values():
                log.finding(bucket, bucket_text(bucket, runner.target(bucket.judgement.target), origin))
            log.summary(runner.tally, elapsed)
        restarts = dict(pool.restarts)
    _report(out, runner.tally, book, targets, origin, elapsed)
    write_reports(_outline(runner, book, targets, twins, origin), wanted)
    if request.coverage:
        print_coverage(out, runner.tally)
    troubles = [trouble for trouble in (book.trouble, log.trouble if log else "") if trouble]
    for line in (*restarted(restarts, oracle), *troubles):
        err.print(line, style="yellow")
    code = exit_code(runner.tally, request.require, err, interrupted=runner.interruption.wanted)
    return Exit.INTERNAL if troubles and code is Exit.OK else code


def restarted(restarts: Mapping[str, int], oracle: OracleProcess) -> list[str]:
    """A line for each process that ended although nobody here ended it."""
    lines = [
        f"{name}: its worker was killed from outside or hung {count} times and was restarted; its cases were run again"
        for name, count in restarts.items()
    ]
    return [*lines, *([oracle.trouble] if oracle.trouble else [])]


def writable(folder: Path) -> Path:
    """`folder`, into which findings can be written: known before the run, not after hours. Raises UsageError."""
    obstacle = unwritable(folder)
    if obstacle is not None:
        raise UsageError(f"--output {folder}: {obstacle} cannot be written")
    return folder


def open_log(path: Path) -> RecordLog:
    try:
        return RecordLog(path)
    except OSError as error:
        raise UsageError(f"--json {path}: cannot be written: {error.strerror}") from error


def _search(runner: Runner, targets: Sequence[Target], seed: int, limits: Limits) -> None:
    """Search every op of which something runs in turn, each with the same share of what those before it left of the
    limits."""
    idle = {name for name, status in runner.pool.statuses.items() if isinstance(status, NotRun)}
    ops = sorted({target.kernel.op for target in targets if target.id not in idle})
    began = time.monotonic()
    # The first op's search begins at once: what is slow there is waited for, and would only be given more.
    warm_up(runner.pool, [target for target in targets if target.kernel.op in ops[1:] and target.id not in idle])
    for to_come, op in zip(range(len(ops), 0, -1), ops, strict=True):
        running = [target for target in targets if target.kernel.op == op and target.id not in idle]
        slow = slow_targets_of(running)
        runner.skipped = CountedSchedule(frozenset(), slow, _SLOW_EVERY, _FOR_ALL)
        slow_targets, quick = ([t for t in running if (t.id in slow) == wanted] for wanted in (True, False))
        runner.for_all = Reserved(slow_targets, quick, runner.pool.statuses)
        runner.limits = limits.less(time.monotonic() - began, runner.tally.cases)
        runner.run(op, seed, share=1 / to_come)


def _report(
    out: Console, tally: Tally, book: FindingBook, targets: Sequence[Target], origin: Provenance, elapsed: float
) -> None:
    by_id = {target.id: target for target in targets}
    out.print(run_table(tally))
    for note in run_notes(tally):
        out.print(note, style="yellow", soft_wrap=True)
    for bucket in book.buckets.values():
        out.print()
        out.print(bucket_text(bucket, by_id[bucket.judgement.target], origin), soft_wrap=True)
    out.print()
    if tally.laws:
        out.print(law_line(tally), soft_wrap=True)
    rate = tally.judged / elapsed if elapsed else 0.0
    told = "cause" if any(bucket.is_explained for bucket in book.buckets.values()) else "kernel and verdict"
    buckets = f"{len(book.buckets)} bucket{'s' if len(book.buckets) != 1 else ''} (one per {told})"
    found = f"{tally.findings:,} failing runs in {buckets}" if tally.findings else "nothing found"
    found = found if tally.judged else "NOTHING RAN"  # never to be taken for a clean run
    out.print(
        f"{found}: {tally.judged:,} judged runs of {tally.cases:,} cases in {minutes(elapsed)} ({rate:,.0f}/s), "
        f"seed {origin.seed}",
        soft_wrap=True,
    )


def _outline(
    runner: Runner, book: FindingBook, targets: Sequence[Target], twins: TwinCount, origin: Provenance
) -> Outline:
    problems = []
    for bucket in book.buckets.values():
        target = runner.target(bucket.judgement.target)
        problems.append(failure_of(bucket, target, bucket_text(bucket, target, origin)))
    lines = target_lines(targets, runner.tally, twins)
    return Outline("run", origin.seed, environment(), runner.tally.cases, lines, tuple(problems))


def _origin(request: Request, seed: int) -> Provenance:
    """How to find the same again: every option that decides which cases run where."""
    pack = ("--pack", str(request.pack)) if request.pack else ()
    words = ["kernelfuzz", "run", "--seed", str(seed), *pack]
    words += [word for pattern in request.targets for word in ("--target", pattern)]
    words += ["-k", request.keyword] if request.keyword else []
    words += ["--op", request.op] if request.op != "*" else []
    return Provenance(seed, shlex.join(words), pack, numbered=True)


def bucket_text(bucket: Bucket, target: Target, origin: Provenance) -> str:
    """The failure text of a bucket, with how often and where it was seen."""
    text = failure_text(bucket.case, bucket.judgement, target, bucket.others, bucket.path, origin)
    number = bucket.case.origin.number
    if origin.numbered and number:
        place = f"{origin.seed}:{bucket.case.op}:{number}"
        text += (
            f"\n  as found      kernelfuzz {shlex.join(['repro', place, *origin.pack_option, '--target', target.id])}"
        )
    seen = f"  seen          {bucket.count:,} times on {len(bucket.targets)} targets"
    told = told_lines(bucket.found.lines())
    return "\n".join([text, *told, seen, *([f"  note          {bucket.note}"] if bucket.note else [])])


def exit_code(tally: Tally, require: Sequence[str], err: Console, *, interrupted: bool) -> Exit:
    """Findings first, then what was required and did not run, then what could not be judged."""
    missing = missing_targets(tally, globs(require))
    for line in missing:
        err.print(line, style="bold red")
    if tally.findings:
        return Exit.FINDINGS
    if missing:
        return Exit.REQUIRED_NOT_RUN
    if interrupted:
        return Exit.INTERRUPTED
    if tally.gave_up:
        return Exit.ORACLE_GAVE_UP
    return Exit.OK if tally.judged else Exit.NOTHING_RAN


def missing_targets(tally: Tally, patterns: Sequence[str]) -> list[str]:
    """A line for each target that a pattern names and that judged nothing."""
    lines = []
    for pattern in patterns:
        matching = [target for target in tally.targets.values() if matches_any(target.target, [pattern])]
        lines += [
            f"required target {target.target} did not run: {target.not_run_reason or 'no case fits it'}"
            for target in matching
            if target.judged == 0
        ]
    return lines
