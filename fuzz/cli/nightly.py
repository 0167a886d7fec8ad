"""`kernelfuzz nightly`: the long job, with a state that outlives it."""

from __future__ import annotations

import json
import os
import secrets
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit, exit_of
from fuzz.cli.options import loaded, pack_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Engine

    from fuzz.adapters.pack import Pack
    from fuzz.base.kernel import Kernel
    from fuzz.findings.database_views import NightView
    from fuzz.findings.tally import Tally
    from fuzz.report.formats import Wanted
    from fuzz.uses.nightly.opening import Opened
    from fuzz.uses.nightly.stopping import Stopping


@dataclass(frozen=True)
class NightlyOptions:
    """The options of `kernelfuzz nightly`."""

    state: Annotated[Path, typer.Option("--state", help="Folder of the state; made if it does not exist.")]
    max_time: Annotated[
        float,
        typer.Option("--max-time", parser=options.duration, metavar="30s|5m|8h", help="How long a night is."),
    ] = 8 * 3600.0
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the latest night where it was stopped or killed.")
    ] = False
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Only write page and reports again, from what the state holds.")
    ] = False
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Repeat the night of this seed.")] = None
    selection: options.Selection = field(default_factory=options.Selection)
    require: options.Require = ()
    pack: options.PackFolder = None
    json: options.Json = None
    report: options.Report = ()
    case_limit: options.CaseLimit = None
    jobs: options.Jobs = 0


def nightly(options: NightlyOptions) -> Exit:
    """Replay what is known, then search all ops on all targets with fresh seeds until the night is over.

    Findings, counts and coverage are saved with every batch, so that a kill or a full disk loses nothing: go on with
    --resume. The night ends with STATE/report.html.
    """
    from fuzz.report.formats import parse

    reports, pack = parse(options.report), loaded(options.pack)
    results = _Results(options, reports, pack.kernels)
    if not options.report_only:
        _leave(_night(options, pack, results))
    return results.again()


def _night(options: NightlyOptions, pack: Pack, results: _Results) -> Exit:
    """One session of a night, from the lock to the page; the exit code is that of the whole night."""
    from fuzz.findings.database import open_state
    from fuzz.findings.state import DATABASE, make_state
    from fuzz.judge.oracle_process import OracleProcess
    from fuzz.report import console
    from fuzz.report.records import environment
    from fuzz.uses.nightly.lock import locked
    from fuzz.uses.nightly.opening import close, open_night
    from fuzz.uses.nightly.session import NightSession
    from fuzz.uses.nightly.stopping import LAST_S, Stopping
    from fuzz.uses.starting import unmatched

    err, state, limit_s = console.progress(), options.state, options.max_time
    targets = options.selection.targets(pack)
    for line in unmatched(options.require, targets):
        err.print(line)
        return Exit.REQUIRED_NOT_RUN
    make_state(state)
    # The process first: it would hold the lock too, for a while after a kill of this one.
    with OracleProcess(target.numerics for target in targets) as oracle, locked(state):
        engine = open_state(state / DATABASE)
        seed = secrets.randbelow(2**32) if options.seed is None else options.seed
        command = options.selection.repeated("nightly", "--max-time", f"{limit_s:g}s", *pack_words(options.pack))
        opened = open_night(engine, seed, limit_s, command, environment(), options.resume)
        err.print(_announced(opened, options.resume), soft_wrap=True)
        with Stopping(opened.left_s) as stopping, ExitStack() as workers:
            session = NightSession(
                state, pack, pack_words(options.pack), targets, engine, opened, stopping, oracle, limit_s,
                options.case_limit, options.jobs,
            )  # fmt: skip
            try:
                saved = session.work(workers, err)
                code = results.finish(engine, opened, stopping, saved)
                with stopping.abortable(LAST_S):
                    workers.close()
            except Exception:
                close(engine, opened.place, "error")
                raise
            return code


def _announced(opened: Opened, resume: bool) -> str:
    what = "goes on" if opened.resumed else "begins"
    note = "; there was none to resume" if resume and not opened.resumed and opened.night > 1 else ""
    return f"night {opened.night} {what}: seed {opened.seed}, {opened.left_s:,.0f} s left{note}"


@dataclass(frozen=True)
class _Results:
    """What a night ends with: its summary, its record and reports, its page and its exit code."""

    options: NightlyOptions
    reports: Sequence[Wanted]
    kernels: Sequence[Kernel]
    """of the pack."""

    def finish(self, engine: Engine, opened: Opened, stopping: Stopping, saved: bool) -> Exit:
        """Say how the night ended, first in the state. What takes too long then is left out: the state has it all."""
        from sqlalchemy.exc import OperationalError

        from fuzz.findings.database_views import view
        from fuzz.uses.nightly.opening import close
        from fuzz.uses.nightly.stopping import LAST_S

        if saved:
            try:
                close(engine, opened.place, "signal" if stopping.signalled else "limit")
            except OperationalError as error:
                _warn(f"not saved: {error.orig}")
                saved = False
        code, whole = None, False
        with stopping.abortable(LAST_S):
            seen = view(engine, opened.night)
            code = self._exit(seen, interrupted=stopping.signalled)
            saved = self._write(seen) and saved
            whole = True
        if not saved:
            _warn("the end of the night was not saved: free some space, then: "
                  f"kernelfuzz nightly --resume --state {self.options.state}")  # fmt: skip
        elif not whole:
            _warn("all is saved, and there was no time to write the page: "
                  f"kernelfuzz nightly --report-only --state {self.options.state}")  # fmt: skip
        return Exit.INTERNAL if code is None or (not saved and code is Exit.OK) else code

    def again(self) -> Exit:
        """Everything of the latest night once more. Raises StateError where there is none, OSError."""
        from fuzz.findings.database import open_state
        from fuzz.findings.database_views import view
        from fuzz.findings.state import latest_state

        seen = view(open_state(latest_state(self.options.state)))
        code = self._exit(seen)
        return code if self._write(seen) or code is not Exit.OK else Exit.INTERNAL

    def _write(self, seen: NightView) -> bool:
        """Summary, record, reports, page; False, with a word why, where one of the files cannot be written."""
        from fuzz.findings.state import PAGE
        from fuzz.report import console
        from fuzz.report.formats import write_reports
        from fuzz.report.night import night_record, outline_of, print_night
        from fuzz.report.page import write_page

        page, record = self.options.state / PAGE, self.options.json
        print_night(console.results(), seen, page)
        try:
            if record:
                record.write_text(json.dumps(night_record(seen), indent=1) + "\n", encoding="utf-8")
            write_reports(outline_of(seen, self.kernels, self._missing(seen)), self.reports)
            write_page(page, seen)
        except OSError as error:
            _warn(f"not saved: {error.filename}: {error.strerror}")
            return False
        return True

    def _missing(self, seen: NightView) -> list[str]:
        from fuzz.uses.starting import missing_targets

        return missing_targets(_tally(seen), self.options.require)

    def _exit(self, seen: NightView, *, interrupted: bool = False) -> Exit:
        from fuzz.report import console

        missing, tally = self._missing(seen), _tally(seen)
        for line in missing:
            console.progress().print(line, style="bold red")
        return exit_of(tally, failing=tally.findings > 0, missing=bool(missing), interrupted=interrupted)


def _tally(seen: NightView) -> Tally:
    """Of the whole night, whatever session saw it."""
    from fuzz.findings.tally import Tally, TargetTally

    tally = Tally()
    for row in seen.targets:
        counts = TargetTally(row.name, row.kernel, row.judged, row.findings, row.gave_up, row.not_run)
        counts.not_run_reason = row.reason
        tally.targets[row.name] = counts
    return tally


def _warn(line: str) -> None:
    from fuzz.report import console

    console.progress().print(line, style="yellow")


def _leave(code: Exit) -> NoReturn:
    """End the process now. To take the interpreter apart takes longer than to save a night, and would wait for threads
    whose kernel is stuck."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
