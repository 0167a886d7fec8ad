"""`kernelfuzz gate`: the check before a change lands."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import given, loaded, pack_words

if TYPE_CHECKING:
    from fuzz.campaign.corpus.accuracy import Ratchet
    from fuzz.campaign.gate.session import GateSession
    from fuzz.core.adapters.pack import Pack


@dataclass(frozen=True)
class GateOptions:
    """The options of `kernelfuzz gate`."""

    base: Annotated[
        str | None,
        typer.Option("--base", metavar="REF", help="Search only kernels that differ from this commit or branch."),
    ] = None
    selection: options.Selection = field(default_factory=options.Selection)
    max_cases: Annotated[int, typer.Option("--max-cases", min=0, help="Number of cases of the search.")] = 2000
    require: options.Require = ()
    known: Annotated[
        Path | None, typer.Option("--known", help="Known failures, each with an issue and an expiry date (TOML, JSON).")
    ] = None
    strict_accuracy: Annotated[
        bool, typer.Option("--strict-accuracy", help="Fail if a kernel lost more than a quarter of its accuracy.")
    ] = False
    update_accuracy: Annotated[
        bool, typer.Option("--update-accuracy", help="Write the accuracy measured now to accuracy.json.")
    ] = False
    corpora: options.Corpora = None
    pack: options.PackFolder = None
    untrusted: options.Untrusted = False
    json: options.Json = None
    report: options.Report = ()
    output: options.Output = Path("findings")
    store: options.Store = None
    explaining: options.Explaining = field(default_factory=partial(options.Explaining, explain_time=5.0))
    case_limit: options.CaseLimit = None
    jobs: options.Processes = 0
    fail_fast: options.FailFast = False
    verbose: options.Verbose = False


def gate(options: GateOptions) -> Exit:
    """Run all kernels on the kept cases, then search those that a change touches.

    The same commit gets the same answer every time: the gate counts cases, not seconds, and its seed is fixed. Without
    --base every kernel is searched.

    For example: kernelfuzz gate --pack mine --base origin/main --report github
    """
    from fuzz.campaign.corpus import folder as corpus
    from fuzz.campaign.corpus.accuracy import require_own
    from fuzz.campaign.gate import session as gating
    from fuzz.campaign.gate.changes import changes_since, touched
    from fuzz.campaign.search.stopping import SessionLimits
    from fuzz.campaign.search.turn_runner import SearchScope
    from fuzz.campaign.session import Session
    from fuzz.campaign.starting import writable
    from fuzz.core.laws.registry import declared
    from fuzz.findings.book import book_in
    from fuzz.findings.bucket import by_family
    from fuzz.report.brief import Provenance
    from fuzz.report.formats import parse, write_reports
    from fuzz.report.outline import session_outline
    from fuzz.report.totals import print_gate
    from fuzz.report.totals import remarks as said
    from fuzz.report.use_outcome import UseOutcome

    wanted, pack = parse(options.report), loaded(options.pack, untrusted=options.untrusted)
    corpora = options.corpora or (corpus.built_in() if options.update_accuracy else corpus.found())
    targets = options.selection.targets(pack)
    if options.update_accuracy and corpora is not None:
        require_own(corpora / "accuracy.json", [kernel.name for kernel in pack.kernels])
    changes = changes_since(options.base, pack.path)
    chosen = {target.kernel.name for target in targets}
    changed = touched(pack.kernels, pack.path, changes)
    reasons = {name: why for name, why in changed.items() if name in chosen}
    known = gating.load_known(options.known) if options.known else ()
    output = writable(options.output)
    earlier = gating.before(options.store, output) if options.store is not None else gating.Before()
    kept = [entry.case for entry in known if entry.case is not None]
    known_phases = gating.phases(corpora, [*kept, *(each.path for each in earlier.kept)])
    pack_option, most, began = pack_words(options.pack, options.untrusted), options.max_cases, time.monotonic()
    judged = given(
        max_cases=most if most != GateOptions.max_cases else None, corpora=options.corpora, known=options.known,
        case_limit=options.case_limit,
    )  # fmt: skip
    command = options.selection.repeated("gate", *given(base=options.base), *pack_option, *judged)
    records, laws = options.json is not None, declared(pack.kernels)
    scope = SearchScope(pack.kernels, laws, slow_every=gating.slow_every(most), slow_first=1, records=records)
    book = book_in(output, gating.SEED)
    if options.store is not None:  # findings are sorted into buckets as the store sorts them
        book = replace(book, name_of=by_family, buckets=dict(earlier.buckets))
    session = Session(
        targets, book, scope, gating.SEED, SessionLimits(None, most), options.json, options.jobs,
        options.case_limit, searched=[target for target in targets if target.kernel.name in reasons],
    )  # fmt: skip
    origin = Provenance(gating.SEED, command, pack_option, since=changes.start)
    ran = gating.GateSession(session, gating.KnownFailures(known, datetime.now(UTC).date()), reasons, before=earlier)
    session.over = lambda: options.fail_fast and bool(ran.unknown)
    with session:
        with session.interruption:
            seen = ran.run(known_phases)
        if not session.interruption.wanted:
            session.explain(options.explaining.seconds if ran.unknown else None, origin)
        remarks = _remarks(options, ran, seen, corpora, pack)
        earlier.mended.difference_update(bucket.name for bucket in session.book.seen)  # the search found these again
        idle = options.base is not None and not (changed or options.require) and not ran.takes_any(known_phases)
        if options.base is not None and not changed:
            remarks.notes.append(changes.unused)
        if idle:
            remarks.notes.append("nothing to judge: no kernel was changed, and no kept case is there to run")
        ran.note_unchanged(options.base)
        outline = replace(
            session_outline(
                "gate", session.book, targets, session.tally, origin, ran.issue, usual=session.usual,
                complaints=remarks.complaints, missing=remarks.missing, interrupted=session.interruption.wanted,
                idle=idle,
            ),
            better=earlier.better,
            notes=(*changes.notes, *ran.notes, *remarks.notes, *earlier.better),
        )  # fmt: skip
        counts = {"cases": ran.counts, "ran": {name: some for name, (some, _) in ran.counted.items()}}
        facts = {"base": options.base, "touched": reasons, **counts, "complaints": said(outline.outcome)}
        told = {**facts, **outline.outcome.record, "notes": outline.notes}
        undeclared = session.conclude(time.monotonic() - began, gate=told)
    outline, elapsed = outline.but_unsaved(session.unsaved), time.monotonic() - began
    strange = _is_of_others(options, corpora)
    counts_told = {name: count for name, count in ran.counted.items() if count[0] or not strange}
    print_gate(
        session.out, outline, session.tally, counts_told, options.base, reasons, undeclared, elapsed,
        verbose=options.verbose,
    )  # fmt: skip
    unsaved, outline = outline.outcome.unsaved, write_reports(outline, wanted)
    session.tell_troubles(UseOutcome({}, {}, unsaved=outline.outcome.unsaved[len(unsaved) :]))
    return outline.outcome.code


def _is_of_others(options: GateOptions, corpora: Path | None) -> bool:
    """Whether the corpora of the built-in pack were found by default, although another pack is judged."""
    from fuzz.campaign.corpus.folder import is_of_checkout

    return options.pack is not None and options.corpora is None and is_of_checkout(corpora)


@dataclass
class _Remarks:
    """The lines that a gate prints besides its findings."""

    complaints: list[str] = field(default_factory=list)
    """Remarks that fail the gate."""
    missing: list[str] = field(default_factory=list)
    """Remarks about targets and kernels that should have run, which fail the gate with their own exit code."""
    notes: list[str] = field(default_factory=list)


def _remarks(options: GateOptions, ran: GateSession, seen: Ratchet, corpora: Path | None, pack: Pack) -> _Remarks:
    """Compare or write the accuracy, and return all remarks, also about known failures and what did not run."""
    from fuzz.campaign.corpus import accuracy
    from fuzz.campaign.gate.session import not_run_files
    from fuzz.campaign.starting import missing_targets, unmatched

    strange = _is_of_others(options, corpora)
    remarks, kernels = _Remarks(notes=[] if strange else not_run_files(corpora)), [each.name for each in pack.kernels]
    stopped = ran.session.over()
    ended = stopped or ran.session.interruption.wanted
    remarks.notes += ["stopped at the first failure"] if stopped else []
    if corpora is None:
        remarks.notes.append("no corpora are here: nothing kept was run, no accuracy compared; see --corpora DIR")
    elif options.update_accuracy and not ended:
        remarks.notes.append(accuracy.update(corpora / "accuracy.json", seen, kernels))
    elif accuracy.others(corpora / "accuracy.json", kernels):
        told = f"accuracy not compared: {corpora / 'accuracy.json'} is of other kernels; see --corpora DIR"
        remarks.notes += [] if strange else [told]
    elif not ended:
        targets = [target.id for target in ran.targets]
        lost, notes = accuracy.compare(corpora / "accuracy.json", seen, targets)
        (remarks.complaints if options.strict_accuracy else remarks.notes).extend(lost)
        remarks.notes += notes
    remarks.complaints += [] if stopped else ran.watch.complaints(ran.judged_kernels, ran.searched)
    remarks.notes += ran.watch.notes(ran.judged_kernels, ran.searched)
    remarks.missing += unmatched(options.require, ran.targets)
    remarks.missing += [] if ran.cut or stopped else missing_targets(ran.tally, options.require)
    if options.base is not None and not options.require and not stopped:
        remarks.missing += ran.ran_nowhere()
    return remarks
