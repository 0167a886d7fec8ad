"""`kernelfuzz gate`: before a change lands."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit, exit_of
from fuzz.cli.options import given, loaded, pack_words

if TYPE_CHECKING:
    from fuzz.adapters.pack import Pack
    from fuzz.uses.gate.accuracy import Ratchet
    from fuzz.uses.gate.session import GateRun


@dataclass(frozen=True)
class GateOptions:
    """The options of `kernelfuzz gate`."""

    base: Annotated[
        str | None,
        typer.Option("--base", metavar="REF", help="Search only the kernels that differ from this commit or branch."),
    ] = None
    selection: options.Selection = field(default_factory=options.Selection)
    max_cases: Annotated[int, typer.Option("--max-cases", min=0, help="Cases of the search.")] = 2000
    require: options.Require = ()
    known: Annotated[
        Path | None, typer.Option("--known", help="Known failures, each with an issue and an expiry date (TOML, JSON).")
    ] = None
    strict_accuracy: Annotated[
        bool, typer.Option("--strict-accuracy", help="Fail where a kernel lost more than a quarter of its accuracy.")
    ] = False
    update_accuracy: Annotated[
        bool, typer.Option("--update-accuracy", help="Write the accuracy measured now to accuracy.json.")
    ] = False
    corpora: options.Corpora = None
    pack: options.PackFolder = None
    json: options.Json = None
    report: options.Report = ()
    output: options.Output = Path("findings")
    explaining: options.Explaining = field(default_factory=partial(options.Explaining, explain_time=5.0))
    case_limit: options.CaseLimit = None
    jobs: options.Processes = 0


def gate(options: GateOptions) -> Exit:
    """Run every kernel on the kept cases and the published suites, then search the kernels that a change touches.

    The same commit gives the same answer every time: cases are counted, not timed, and no seed is drawn. Without --base
    every kernel is searched.
    """
    from fuzz.findings.book import book_in
    from fuzz.laws.registry import declared
    from fuzz.report import console
    from fuzz.report.failure import Provenance
    from fuzz.report.formats import parse, write_reports
    from fuzz.report.outline import run_outline
    from fuzz.report.progress import Progress
    from fuzz.report.records import RecordLog
    from fuzz.report.totals import kernels_judged, print_gate, undeclared_by_op
    from fuzz.uses.corpus import folder as corpus
    from fuzz.uses.explaining import explain_findings, note_histories
    from fuzz.uses.gate.accuracy import require_own
    from fuzz.uses.gate.changes import changes_since, touched
    from fuzz.uses.gate.known import Watch, load_known
    from fuzz.uses.gate.plan import SEED, phases, slow_every
    from fuzz.uses.gate.session import GateRun
    from fuzz.uses.search.stopping import Interruption
    from fuzz.uses.search.taker import Terms
    from fuzz.uses.starting import crew_of, note_not_running, restarted, started, writable

    out, err = console.results(), console.progress()
    wanted, pack = parse(options.report), loaded(options.pack)
    corpora = options.corpora or (corpus.built_in() if options.update_accuracy else corpus.found())
    targets = options.selection.targets(pack)
    if options.update_accuracy and corpora is not None:
        require_own(corpora / "accuracy.json", [kernel.name for kernel in pack.kernels])
    changes = changes_since(options.base, pack.path)
    chosen = {target.kernel.name for target in targets}
    changed = touched(pack.kernels, pack.path, changes)
    reasons = {name: why for name, why in changed.items() if name in chosen}
    known = load_known(options.known) if options.known else ()
    plan = phases(corpora, [entry.case for entry in known if entry.case is not None])
    pack_option, most = pack_words(options.pack), options.max_cases
    judged = given(
        max_cases=most if most != GateOptions.max_cases else None, corpora=options.corpora, known=options.known,
        case_limit=options.case_limit,
    )  # fmt: skip
    command = options.selection.repeated("gate", *given(base=options.base), *pack_option, *judged)
    origin = Provenance(SEED, command, pack_option)
    book, seconds = book_in(writable(options.output), SEED), options.explaining.seconds
    searched = [target for target in targets if target.kernel.name in reasons]
    laws, began = declared(pack.kernels), time.monotonic()
    terms = Terms(
        pack.kernels, laws, slow_every=slow_every(options.max_cases), slow_first=1, records=options.json is not None
    )
    crew = crew_of(searched, terms, options.jobs, options.max_cases, options.case_limit)
    with ExitStack() as stack:
        stack.enter_context(crew)
        log = stack.enter_context(RecordLog(options.json))
        watch = Watch(known, datetime.now(UTC).date())
        session = GateRun(
            targets, book, watch, laws, options.max_cases, reasons, pack.kernels, crew=crew, records=log.lines
        )
        pool = stack.enter_context(started(targets, options.jobs, err, options.case_limit))
        log.header(SEED, pool.statuses)
        note_not_running(session.tally, targets, pool)
        progress = stack.enter_context(Progress(err, session.tally, None, None))
        session.observers = [progress, log]
        with session.interruption:
            seen = session.run(pool, plan)
        progress.stop()
        if not session.interruption.wanted:
            with Interruption("what is known of the findings is shown") as skip:
                note_histories(book, session, options.case_limit, skip)
                if session.unknown and seconds is not None:
                    explain_findings(book, pool, targets, seconds, err, skip)
        restarts = restarted(pool, crew)
        remarks = _remarks(options, session, seen, corpora, pack)
        cases_there = any(phase.groups for phase in plan)
        idle = options.base is not None and not (changed or options.require or cases_there)
        if idle:
            remarks.notes.append(
                f"nothing to judge: no kernel differs from {options.base}, and no kept case is there to replay"
            )
        outline = replace(
            run_outline("gate", book, targets, session.tally, origin, session.issue),
            complaints=(*remarks.complaints, *remarks.missing),
            notes=(*([changes.note] if changes.note else ()), *session.notes, *remarks.notes),
        )
        log.findings(book, [failure.text for failure in outline.failures if not failure.broken])
        ran = {name: some for name, (some, _) in session.counted.items()}
        facts = {"base": options.base, "touched": reasons, "cases": session.counts, "ran": ran}
        log.note("gate", {"ok": outline.ok, **facts, "complaints": outline.complaints, "notes": outline.notes})
        undeclared = undeclared_by_op(kernels_judged(targets, session.tally))
        log.summary(session.tally, undeclared, time.monotonic() - began)
    failing, interrupted = bool(outline.failing or remarks.complaints), session.interruption.wanted
    code = exit_of(
        session.tally, failing=failing, missing=bool(remarks.missing), interrupted=interrupted, errors=bool(book.errors)
    )
    if idle and code is Exit.NOTHING_RAN:
        code = Exit.OK
    passed, elapsed = code is Exit.OK, time.monotonic() - began
    print_gate(out, outline, session.tally, session.counted, options.base, reasons, undeclared, elapsed, passed=passed)
    write_reports(outline, wanted)
    troubles = [each for each in (book.trouble, log.trouble) if each]
    for line in (*restarts, *troubles):
        err.print(line, style="yellow", soft_wrap=True)
    for line in book.errors:
        err.print(line, style="bold red", soft_wrap=True)
    return Exit.INTERNAL if troubles and passed else code


@dataclass
class _Remarks:
    """What a gate says besides its findings."""

    complaints: list[str] = field(default_factory=list)
    """These remarks fail the gate."""
    missing: list[str] = field(default_factory=list)
    """The targets and kernels that should have run; they fail the gate with a code of their own."""
    notes: list[str] = field(default_factory=list)


def _remarks(options: GateOptions, session: GateRun, seen: Ratchet, corpora: Path | None, pack: Pack) -> _Remarks:
    """Compare the accuracy, or write it; then what is known, and what did not run."""
    from fuzz.uses.gate import accuracy
    from fuzz.uses.gate.plan import unreplayed
    from fuzz.uses.starting import missing_targets, unmatched

    remarks, kernels = _Remarks(notes=unreplayed(corpora)), [kernel.name for kernel in pack.kernels]
    if corpora is None:
        remarks.notes.append("no corpora are here: nothing kept was replayed, no accuracy compared; see --corpora DIR")
    elif options.update_accuracy and not session.interruption.wanted:
        remarks.notes.append(accuracy.update(corpora / "accuracy.json", seen, kernels))
    elif accuracy.others(corpora / "accuracy.json", kernels):
        remarks.notes.append(
            f"accuracy not compared: {corpora / 'accuracy.json'} is of other kernels; see --corpora DIR"
        )
    elif not session.interruption.wanted:
        targets = [target.id for target in session.targets]
        lost, notes = accuracy.compare(corpora / "accuracy.json", seen, targets)
        (remarks.complaints if options.strict_accuracy else remarks.notes).extend(lost)
        remarks.notes += notes
    remarks.complaints += session.watch.complaints(session.judged_kernels, session.searched)
    remarks.notes += session.watch.notes(session.judged_kernels, session.searched)
    remarks.missing += unmatched(options.require, session.targets)
    remarks.missing += [] if session.cut else missing_targets(session.tally, options.require)
    remarks.missing += session.ran_nowhere() if options.base is not None and not options.require else []
    return remarks
