"""`kernelfuzz run`: the main job."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit, exit_of
from fuzz.cli.options import given, loaded, pack_words


@dataclass(frozen=True)
class RunOptions:
    """The options of `kernelfuzz run`."""

    max_time: Annotated[
        float | None,
        typer.Option(
            "--max-time",
            parser=options.duration,
            metavar="30s|5m|8h",
            help="Search for this long; starting and explaining come on top.",
        ),
    ] = None
    max_cases: Annotated[int | None, typer.Option("--max-cases", min=1, help="Stop after this many cases.")] = None
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Same seed, same cases. Default: fresh.")] = None
    selection: options.Selection = field(default_factory=options.Selection)
    require: options.Require = ()
    pack: options.PackFolder = None
    json: options.Json = None
    output: options.Output = Path("findings")
    report: options.Report = ()
    coverage: Annotated[
        bool,
        typer.Option("--coverage", help="Print what the cases visited of the input space, and each coverage gap."),
    ] = False
    explaining: options.Explaining = field(default_factory=options.Explaining)
    case_limit: options.CaseLimit = None
    sanitize: options.Sanitize = False
    jobs: options.Processes = 0


def run(options: RunOptions) -> Exit:
    """Fuzz every kernel on every target until a limit is reached.

    Without --max-time and --max-cases it runs until Ctrl-C. Findings are written as case files at once. After the
    search each is shrunk and explained, and printed with the command that reproduces it.
    """
    from fuzz.findings.book import book_in
    from fuzz.findings.tally import Tally
    from fuzz.laws.registry import declared
    from fuzz.report import console
    from fuzz.report.failure import Provenance
    from fuzz.report.formats import parse, write_reports
    from fuzz.report.outline import run_outline
    from fuzz.report.progress import Progress
    from fuzz.report.records import RecordLog
    from fuzz.report.totals import kernels_judged, print_coverage, print_run, undeclared_by_op
    from fuzz.uses.explaining import explain_findings, note_histories
    from fuzz.uses.search.record import keep_record
    from fuzz.uses.search.runner import Limits, Runner
    from fuzz.uses.search.schedule import search_ops
    from fuzz.uses.search.stopping import Interruption
    from fuzz.uses.search.taker import Terms
    from fuzz.uses.starting import (
        crew_line,
        crew_of,
        missing_targets,
        note_not_running,
        restarted,
        started,
        unmatched,
        writable,
    )

    out, err = console.results(), console.progress()
    wanted, pack = parse(options.report), loaded(options.pack)
    targets = options.selection.targets(pack)
    for line in unmatched(options.require, targets):
        err.print(line)
        return Exit.REQUIRED_NOT_RUN
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    pack_option = pack_words(options.pack)
    limited = given(
        max_time=options.max_time, max_cases=options.max_cases, case_limit=options.case_limit, sanitize=options.sanitize
    )
    command = options.selection.repeated("run", "--seed", str(seed), *pack_option, *limited)
    origin = Provenance(seed, command, pack_option, numbered=True)
    book, tally, seconds = book_in(writable(options.output), seed), Tally(), options.explaining.seconds
    limits, laws = Limits(options.max_time, options.max_cases), declared(pack.kernels)
    terms = Terms(pack.kernels, laws, records=options.json is not None)
    crew = crew_of(targets, terms, options.jobs, options.max_cases, options.case_limit, sanitize=options.sanitize)
    with ExitStack() as stack:
        stack.enter_context(crew)
        log = stack.enter_context(RecordLog(options.json))
        pool = stack.enter_context(started(targets, options.jobs, err, options.case_limit, sanitize=options.sanitize))
        log.header(seed, pool.statuses)
        note_not_running(tally, targets, pool)
        progress = stack.enter_context(Progress(err, tally, options.max_time, options.max_cases))
        runner = Runner(
            pool, targets, limits, book, laws, pack.kernels, [progress, log], crew=crew, terms=crew.terms,
            ended=lambda course: keep_record(course, book, named=options.json is not None or tally.gave_up > 0),
            records=log.lines, tally=tally,
        )  # fmt: skip
        began = time.monotonic()
        with runner.interruption:
            search_ops(runner, seed)
        elapsed = time.monotonic() - began
        progress.stop()
        if not runner.interruption.terminated:
            with Interruption("what is known of the findings is shown") as skip:
                note_histories(book, runner, options.case_limit, skip)
                if seconds is not None:
                    explain_findings(book, pool, targets, seconds, err, skip)
        outline = run_outline("run", book, targets, tally, origin)
        log.findings(book, [failure.text for failure in outline.failures if not failure.broken])
        undeclared = undeclared_by_op(kernels_judged(targets, tally))
        pairs = tally.pairs() if options.coverage else {}
        log.summary(tally, undeclared, elapsed, pairs)
        restarts = restarted(pool, crew)
    print_run(out, outline, tally, book, undeclared, elapsed, crew_line(crew))
    write_reports(outline, wanted)
    if options.coverage:
        print_coverage(out, tally, pairs)
    missing, troubles = missing_targets(tally, options.require), [each for each in (book.trouble, log.trouble) if each]
    for line in (*restarts, *troubles):
        err.print(line, style="yellow")
    for line in missing:
        err.print(line, style="bold red")
    for line in book.errors:
        err.print(line, style="bold red")
    code = exit_of(
        tally, failing=tally.findings > 0, missing=bool(missing), interrupted=runner.interruption.wanted,
        errors=bool(book.errors),
    )  # fmt: skip
    return Exit.INTERNAL if troubles and code is Exit.OK else code
