"""`kernelfuzz bisect`: the commit that made a kept case fail."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import given


@dataclass(frozen=True)
class BisectOptions:
    """The options of `kernelfuzz bisect`."""

    case: Annotated[
        str, typer.Argument(help="A case file, or the beginning of a finding's name or digest.", show_default=False)
    ]
    good: Annotated[
        str | None,
        typer.Option(
            "--good",
            metavar="COMMIT",
            help="A commit at which the case passes, such as a tag. Default: that of the last night in which it "
            "passed, if --store or the state in --findings knows one.",
            show_default=False,
        ),
    ] = None
    findings: options.Findings = Path("findings")
    store: options.Store = None
    target: options.Targets = ()
    pack: options.PackFolder = None
    untrusted: options.Untrusted = False
    case_limit: options.CaseLimit = None
    json: options.Json = None


def bisect(options: BisectOptions) -> Exit:
    """Name the commit after --good that made a case fail, by running it at log2 of the commits up to HEAD.

    The commits are checked out in a temporary worktree: your files stay as they are. What cannot be built or judged is
    skipped, never blamed. Exit code 0: the commit is named; 125: so much was skipped that only a few can be named.

    For example: kernelfuzz bisect b88a1c --good v1.2 --pack mine
    """
    from fuzz.campaign.bisecting import CaseRun, bisected, pack_of, target_of
    from fuzz.campaign.reproducing import file_of
    from fuzz.core.base.errors import UsageError
    from fuzz.core.base.git import GitError
    from fuzz.findings.database import open_known
    from fuzz.findings.database_store import fetch
    from fuzz.report import console
    from fuzz.report.records import write_record

    if options.store is not None:
        fetch(open_known(options.store), options.case, options.findings)
    case = file_of(options.case, options.findings, options.pack, "--store" if options.store else "").resolve()
    targets = options.target or tuple(filter(None, [target_of(case)]))
    words = given(untrusted=options.untrusted, case_limit=options.case_limit)
    good = options.good or _known_good(options, case)
    run = CaseRun(case, pack_of(options.pack), (*words, *(word for each in targets for word in ("--target", each))))
    err = console.progress()
    try:
        with err.status("judging ..."):
            found = bisected(run, good, lambda line: console.print_lines(err, [line]))
    except GitError as error:
        raise UsageError(str(error)) from error
    if isinstance(found, str):
        console.print_lines(err, [f"kernelfuzz: {found}"])
        return Exit.CANNOT_JUDGE
    console.print_lines(console.results(), found.lines)
    write_record(options.json, found.facts)
    return Exit.OK if len(found.suspects) == 1 else Exit.CANNOT_JUDGE


def _known_good(options: BisectOptions, case: Path) -> str:
    """Return the commit of the last night in which the case passed before it failed. Raises UsageError if no night
    says so."""
    from fuzz.core.base.errors import UsageError
    from fuzz.findings.database import open_known
    from fuzz.findings.database_views import bracket_of
    from fuzz.findings.state import DATABASE

    state = options.findings / DATABASE
    store = options.store or (f"sqlite:///{state}" if state.exists() else None)
    found = bracket_of(open_known(store), case.name) if store is not None else None
    if found is None or not found.named:
        raise UsageError(f"{options.case}: no night is known in which it passed: name a commit with --good")
    return found.good
