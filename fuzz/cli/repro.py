"""`kernelfuzz repro`: running a kept case again."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded


@dataclass(frozen=True)
class ReproOptions:
    """The options of `kernelfuzz repro`."""

    case: options.KeptCase
    findings: options.Findings = Path("findings")
    store: options.Store = None
    target: options.Targets = ()
    pack: options.PackFolder = None
    untrusted: options.Untrusted = False
    json: options.Json = None
    script: Annotated[
        Path | None,
        typer.Option(
            "--script", metavar="repro.c|repro.py", help="Write a program that shows the failure without kernelfuzz."
        ),
    ] = None
    case_limit: options.CaseLimit = None
    change: Annotated[
        tuple[str, ...],
        typer.Option("--set", metavar="n=4", help="Change one thing of the case, as in its line 'nearby'. Repeatable."),
    ] = ()
    sanitize: options.Sanitize = False
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print all: tensors, what is allowed and why, the explanation.")
    ] = False
    jobs: options.Jobs = 0


def repro(options: ReproOptions) -> Exit:
    """Run a case again, bit for bit, and print how it is judged.

    Exit code 0: it passes everywhere; 1: it fails somewhere; 125: it cannot be judged here, so that `git bisect run`
    skips the commit.

    For example: kernelfuzz repro b88a1c --pack mine --set n=4
    """
    from fuzz.core.adapters.build import BuildError
    from fuzz.core.adapters.pack import PackError
    from fuzz.core.base.selection import SelectionError
    from fuzz.report import console
    from oracles.summation import NumericsError

    try:
        return _reproduced(options)
    except (PackError, SelectionError, BuildError, NumericsError) as error:  # at another commit it may work
        console.print_lines(console.progress(), [f"kernelfuzz: {error}"])
        return Exit.CANNOT_JUDGE


def _reproduced(options: ReproOptions) -> Exit:
    """Run and report the case, and return the exit code. Errors of packs, selections and builds are passed on."""
    from fuzz.campaign import reproducing
    from fuzz.campaign.starting import started
    from fuzz.explain.explanation import Explanation
    from fuzz.explain.facts import explanation_of
    from fuzz.explain.finding import Finding
    from fuzz.explain.trial.trial import reproduced
    from fuzz.findings.database import open_known
    from fuzz.findings.database_store import fetch
    from fuzz.report import console
    from fuzz.report.brief import WIDTH, Commands, brief
    from fuzz.report.failure import HANG, full_text, verdict_line
    from fuzz.report.progress import judging_told
    from fuzz.report.records import write_record
    from fuzz.tasks.check.retrieval import command_of, refuse_alone, retrieved

    out, err = console.results(), console.progress()
    width = console.room(out)
    reproducing.check_name(options.script)
    if options.store is not None:
        fetch(open_known(options.store), options.case, options.findings)
    file = reproducing.case_path(options.case, options.findings, options.pack, "--store" if options.store else "")
    check, command = None, [] if options.pack is None else command_of(options.pack)
    if command:
        check = retrieved(command, file)
    elif options.pack is None and file is not None:
        refuse_alone(file, "repro")
    pack = loaded(options.pack, untrusted=options.untrusted) if check is None else check.pack
    chosen = reproducing.changed(reproducing.chosen_case(options.case, options.findings, pack), options.change)
    case, found = chosen.case, chosen.found
    watched = options.sanitize or reproducing.is_watched(found)
    targets = reproducing.fitting_targets(pack, case, options.target, sanitize=watched)
    by_id, limit = {target.id: target for target in targets}, options.case_limit
    in_workers = started(targets, options.jobs, err, limit, bounded=False)
    here = in_workers if check is None or check.here is None else nullcontext(check.here)
    with judging_told(err), here as workers:
        seen = reproduced(workers, by_id, case, chosen.law, chosen.history)
    judgements = [each.judgement for each in seen.values()]
    explained = list[Explanation]()
    for judgement in reproducing.worth_explaining(judgements, by_id, found):
        shown = seen[judgement.target]
        finding = Finding(shown.case, replace(judgement, outcome=shown.outcome))
        explained.append(explanation_of(finding, by_id[judgement.target]))
    for told in explained:
        if told.verdict.is_finding:
            console.print_failure(out, brief(reproducing.with_known(told, found), Commands(), min(width, WIDTH)))
    whole = options.verbose
    lines = [*reproducing.found_lines(found, case, seen, pack, whole=whole)]
    console.print_lines(
        out, [*([""] if lines and any(each.verdict.is_finding for each in explained) else []), *lines], hang=HANG
    )
    if len(targets) > 1 and judgements:
        out.print(reproducing.verdict_table(judgements))
    for told in explained:
        out.print()
        out.print(full_text(told, Commands(), width=width) if whole else verdict_line(told), soft_wrap=whole)
    if explained and not whole:
        out.print("-v prints the tensors, what is allowed and why")
    if options.script is not None:
        judgement = reproducing.chosen_for_script(options.script, judgements, by_id, found)
        shown_by = by_id[judgement.target]
        with nullcontext(shown_by) if check is None else check.as_program(shown_by) as alone:
            reproducing.write_script(options.script, chosen, judgement, alone)
        err.print(reproducing.script_line(options.script, judgement, judgements))
    write_record(options.json, reproducing.facts(case, judgements))
    ours = [each for each in judgements if each.is_ours]
    for judgement in ours:
        err.print(f"{judgement.target}: {judgement.reason}; please report it")
    if ours:
        return Exit.INTERNAL
    undecided = reproducing.undecided(judgements, found, named=bool(options.target))
    if undecided:
        err.print(undecided)
        return Exit.CANNOT_JUDGE
    return Exit.FINDINGS if any(judgement.verdict.is_finding for judgement in judgements) else Exit.OK
