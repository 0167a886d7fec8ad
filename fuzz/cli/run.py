"""`kernelfuzz run`: a search for failures."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import engine_of, given, loaded, pack_words, use_cache


@dataclass(frozen=True)
class RunOptions:
    """The options of `kernelfuzz run`."""

    max_time: Annotated[
        float | None,
        options.timed("--max-time", "30s|5m|8h", "Search for this long. Starting and explaining take extra time."),
    ] = None
    max_cases: Annotated[int | None, typer.Option("--max-cases", min=1, help="Stop after this many cases.")] = None
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Same seed, same cases. Default: fresh.")] = None
    selection: options.Selection = field(default_factory=options.Selection)
    require: options.Require = ()
    pack: options.PackFolder = None
    untrusted: options.Untrusted = False
    json: options.Json = None
    output: options.Output = Path("findings")
    store: options.Store = None
    engine: options.Engine = "local"
    report: options.Report = ()
    coverage: Annotated[
        bool,
        typer.Option("--coverage", help="Print which parts of the input space the cases visited, and which not."),
    ] = False
    explaining: options.Explaining = field(default_factory=options.Explaining)
    case_limit: options.CaseLimit = None
    sanitize: options.Sanitize = False
    jobs: options.Processes = 0
    cache: options.Cache = None
    fail_fast: options.FailFast = False
    verbose: options.Verbose = False


def run(options: RunOptions) -> Exit:
    """Search for inputs that kernels get wrong, on every target, until a limit is reached.

    Without --max-time and --max-cases it runs until Ctrl-C. Findings are written as case files at once. After the
    search each is made as small as possible, explained, and printed with the command that runs it again.

    For example: kernelfuzz run --pack mine --max-time 5m
    """
    from fuzz.campaign.search.runner import search_ops
    from fuzz.campaign.search.stopping import SessionLimits
    from fuzz.campaign.search.turn_runner import SearchScope
    from fuzz.campaign.session import Session
    from fuzz.campaign.starting import missing_targets, unmatched, writable
    from fuzz.core.laws.registry import declared
    from fuzz.findings.book import book_in
    from fuzz.report import console
    from fuzz.report.brief import Provenance
    from fuzz.report.coverage import print_coverage
    from fuzz.report.formats import parse, write_reports
    from fuzz.report.outline import session_outline
    from fuzz.report.records import environment
    from fuzz.report.totals import print_session

    use_cache(options.cache)
    wanted, records = parse(options.report), options.json is not None
    pack = loaded(options.pack, untrusted=options.untrusted)
    engine = engine_of(options.engine, options.pack, options.untrusted)
    targets = options.selection.targets(pack, engine.hosts if engine else (), sanitize=options.sanitize)
    for line in unmatched(options.require, targets):
        console.progress().print(line)
        return Exit.REQUIRED_NOT_RUN
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    pack_option = pack_words(options.pack, options.untrusted)
    limited = given(
        max_time=options.max_time, max_cases=options.max_cases, case_limit=options.case_limit, sanitize=options.sanitize
    )
    command = options.selection.repeated("run", "--seed", str(seed), *pack_option, *limited)
    origin = Provenance(seed, command, pack_option, numbered=True)
    output, limits, kept = writable(options.output), SessionLimits(options.max_time, options.max_cases), None
    warn = partial(console.progress().print, style="yellow")
    if options.store is not None:
        from fuzz.campaign.nightly.opening import remembered

        facts, op = environment((target.kernel for target in targets), pack.path), options.selection.ops
        kept = remembered(options.store, output, seed, command, op, options.max_time, targets, facts, warn)
    book = book_in(output, seed) if kept is None else kept.book
    scope = SearchScope(pack.kernels, declared(pack.kernels), records=records, accuracy=kept is not None)
    session = Session(targets, book, scope, seed, limits, options.json, options.jobs, options.case_limit, engine=engine)
    tally = session.tally
    session.over = lambda: options.fail_fast and tally.findings > 0
    with session:
        runner, began = session.runner(targets), time.monotonic()
        recorder = None
        if kept is not None:
            recorder = kept.begin(session, warn)
            runner.observers = [recorder, *runner.observers]
        with session.interruption:
            search_ops(runner, seed)
        elapsed = time.monotonic() - began
        if kept is not None:
            kept.recall(session)
        if not session.interruption.terminated:
            session.explain(options.explaining.seconds, origin)
        saved = kept is None or recorder is None or kept.end(recorder, session.interruption)
        pairs = tally.pairs() if options.coverage or records else {}
        undeclared = session.conclude(elapsed, pairs)
    unsaved = (*session.unsaved, *([] if saved else [f"the store {options.store} was not told everything"]))
    missing = [] if session.over() else missing_targets(tally, options.require)
    outline = session_outline(
        "run", book, targets, tally, origin, usual=session.usual, missing=missing, unsaved=unsaved,
        interrupted=session.interruption.wanted,
    )  # fmt: skip
    print_session(
        session.out, outline, tally, book, undeclared, elapsed, session.processes,
        verbose=options.verbose, stopped=session.over(),
    )  # fmt: skip
    outline = write_reports(outline, wanted)
    if options.coverage:
        print_coverage(session.out, tally, pairs)
    session.tell_troubles(outline.outcome)
    return outline.outcome.code
