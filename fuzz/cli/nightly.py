"""`kernelfuzz nightly`: the long search of a night, whose state stays on disk."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import engine_of, given, loaded, pack_words, use_cache

if TYPE_CHECKING:
    from rich.console import Console
    from sqlalchemy import Engine

    from fuzz.campaign.nightly.opening import Opened
    from fuzz.campaign.nightly.results import NightEnd, NightResults
    from fuzz.core.adapters.pack import Pack


_LIMIT_S = 8 * 3600.0


@dataclass(frozen=True)
class NightlyOptions:
    """The options of `kernelfuzz nightly`."""

    state: Annotated[
        Path, typer.Option("--state", help="Folder for the state of the nights; made if it does not exist.")
    ]
    store: options.Store = None
    share: Annotated[
        Path | None,
        typer.Option(
            "--share",
            metavar="DIR",
            help="Folder on a shared disk: run what other machines found, and put there what this one finds.",
        ),
    ] = None
    engine: options.Engine = "local"
    max_time: Annotated[
        float | None,
        typer.Option(
            "--max-time",
            parser=options.duration,
            metavar="30s|5m|8h",
            help="How long a night is. Default: 8h, and with --resume as long as it was meant to be.",
            show_default=False,
        ),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the latest night from where it was stopped or killed.")
    ] = False
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Only write the page and the reports again, from the state.")
    ] = False
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Repeat the night that had this seed.")] = None
    selection: options.Selection = field(default_factory=options.Selection)
    require: options.Require = ()
    pack: options.PackFolder = None
    untrusted: options.Untrusted = False
    json: options.Json = None
    report: options.Report = ()
    notify: Annotated[
        str | None,
        typer.Option(
            "--notify",
            metavar="COMMAND",
            help="A command of the shell that gets the new, fixed and returned buckets, if there are any, on stdin.",
        ),
    ] = None
    gh: Annotated[
        str | None,
        typer.Option(
            "--gh", metavar="OWNER/NAME", help="File, close and open issues for bugs on GitHub, by its command gh."
        ),
    ] = None
    case_limit: options.CaseLimit = None
    sanitize: options.Sanitize = False
    jobs: options.Processes = 0
    cache: options.Cache = None


def nightly(options: NightlyOptions) -> Exit:
    """Run earlier findings and kept cases, then search all ops on all targets with fresh seeds, for a time.

    Findings, counts and coverage are saved twice a second, so that a kill or a full disk loses nothing; --resume
    continues such a night. It ends with a page, STATE/report.html.

    For example: kernelfuzz nightly --max-time 8h --state STATE --pack mine
    """
    from fuzz.campaign.nightly.results import NightResults
    from fuzz.report import console
    from fuzz.report.formats import parse

    use_cache(options.cache)
    reports, pack = parse(options.report), loaded(options.pack, untrusted=options.untrusted)
    results = NightResults(
        options.state, options.store, options.require, options.json, reports, pack.kernels, pack.path,
        console.results(), console.progress(), options.notify, options.gh,
    )  # fmt: skip
    if not options.report_only:
        _leave(_night(options, pack, results))
    return _exit(results.again())


def _night(options: NightlyOptions, pack: Pack, results: NightResults) -> Exit:
    """Work one session of a night, from the lock to the page, and return the exit code of the whole night."""
    from sqlalchemy.exc import DBAPIError

    from fuzz.campaign.nightly.night import Night
    from fuzz.campaign.nightly.opening import close
    from fuzz.campaign.search.deadline import LAST_S, Stopping
    from fuzz.campaign.starting import unmatched
    from fuzz.findings.database import answering, opened_store
    from fuzz.findings.database_store import restore, told_again
    from fuzz.findings.state import FINDINGS, FencedError, locked, make_state
    from fuzz.report.console import print_lines

    err, state = results.err, options.state
    cluster = engine_of(options.engine, options.pack, options.untrusted)
    targets = options.selection.targets(pack, cluster.hosts if cluster else (), sanitize=options.sanitize)
    for line in unmatched(options.require, targets):
        err.print(line)
        return Exit.REQUIRED_NOT_RUN
    make_state(state)
    with locked(state):
        engine, damage = opened_store(state, options.store)
        if damage:
            _warn(err, damage)
        with answering(engine):
            for line in told_again(engine, state / FINDINGS):
                _warn(err, line)
            restore(engine, state / FINDINGS)
            opened = _opened(options, engine, pack)
        what = "goes on" if opened.resumed else "begins"
        print_lines(err, [f"night {opened.night} {what}: seed {opened.seed}, {opened.left_s:,.0f} s left"])
        with Stopping(opened.left_s) as stopping, ExitStack() as held:
            night = Night(
                state, pack, pack_words(options.pack, options.untrusted), targets, engine, opened, stopping,
                partial(_warn, err), options.case_limit, options.jobs, cluster, options.share,
            )  # fmt: skip
            try:
                saved = night.work(held)
                ended = results.finish(engine, opened, stopping, saved, night.in_memory, night.book.errors)
                with stopping.abortable(LAST_S):
                    held.close()
            except FencedError as error:
                _warn(err, str(error))
                return Exit.INTERNAL
            except Exception:
                with suppress(DBAPIError):  # the first error is reported even if this fails
                    close(engine, opened.position, "error")
                raise
            return _exit(ended, interrupted=stopping.signalled, errors=bool(night.book.errors))


def _warn(err: Console, line: str) -> None:
    from fuzz.report.console import print_lines

    print_lines(err, [line], "yellow")


def _opened(options: NightlyOptions, engine: Engine, pack: Pack) -> Opened:
    """Return the night to work on. Raises StateError if the night to resume has ended."""
    from fuzz.campaign.nightly.opening import RESUMABLE, folder_digest, latest_night, open_night
    from fuzz.findings.state import StateError
    from fuzz.report.night import command_again
    from fuzz.report.records import environment

    place = folder_digest(options.state)
    before = latest_night(engine, place) if options.resume else None
    limit_s = options.max_time or (before.limit_s if before else _LIMIT_S)
    command = _repeated(options, limit_s)
    if before is not None and before.ended not in RESUMABLE:
        another = command_again("", command, options.state, options.store)
        raise StateError(f"night {before.id} has ended, and cannot go on; to begin another: {another}")
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    return open_night(engine, seed, limit_s, command, environment(pack.kernels, pack.path), options.resume, place)


def _repeated(options: NightlyOptions, limit_s: float) -> str:
    """Return the command line that begins such a night, without the place of its state."""
    how = given(
        max_time=limit_s, engine=None if options.engine == "local" else options.engine, case_limit=options.case_limit,
        jobs=options.jobs or None, sanitize=options.sanitize, notify=options.notify, gh=options.gh, share=options.share,
    )  # fmt: skip
    required = (word for each in options.require for word in ("--require", each))
    return options.selection.repeated("nightly", *how, *required, *pack_words(options.pack, options.untrusted))


def _exit(ended: NightEnd, *, interrupted: bool = False, errors: bool = False) -> Exit:
    if ended.outcome is None or errors or not ended.saved:
        return Exit.INTERNAL
    return replace(ended.outcome, interrupted=interrupted or ended.outcome.interrupted).code


def _leave(code: Exit) -> NoReturn:
    """End the process at once. Shutting down the interpreter takes longer than saving a night, and waits for threads
    with a stuck kernel."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
