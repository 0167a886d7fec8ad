"""What a night ends with: its summary, its record and reports, its page and its exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from fuzz.base.kernel import Kernel
from fuzz.base.selection import globs
from fuzz.cli.exits import Exit
from fuzz.cli.fuzzing import exit_code, missing_targets
from fuzz.findings.database import open_state
from fuzz.findings.database_views import NightView, view
from fuzz.findings.state import DATABASE, PAGE, StateError
from fuzz.findings.tally import Tally, TargetTally
from fuzz.report import console
from fuzz.report.formats import Wanted, write_reports
from fuzz.report.night import night_record, outline_of, print_night
from fuzz.report.page import write_page
from fuzz.uses.nightly.opening import Opened, close
from fuzz.uses.search.stopping import LAST_S, Stopping


@dataclass(frozen=True)
class Results:
    """Where the results of a night go."""

    state: Path
    require: Sequence[str]
    json: Path | None
    reports: Sequence[Wanted]
    kernels: Sequence[Kernel]
    """of the pack."""

    def finish(self, engine: Engine, opened: Opened, stopping: Stopping, saved: bool, err: Console) -> Exit:
        """Say how the night ended, first in the state. What takes too long then is left out: the state has it all."""
        if saved:
            try:
                close(engine, opened.position, "signal" if stopping.signalled else "limit")
            except OperationalError as error:
                _warn(err, f"not saved: {error.orig}")
                saved = False
        code, whole = None, False
        with stopping.abortable(LAST_S):
            seen = view(engine, opened.night)
            code = self._exit_code(seen, err, interrupted=stopping.signalled)
            saved = self.write(seen, err) and saved
            whole = True
        if not saved:
            _warn(err, "the end of the night was not saved: free some space, then: "
                       f"kernelfuzz nightly --resume --state {self.state}")  # fmt: skip
        elif not whole:
            _warn(err, f"all is saved, and there was no time to write the page: "
                       f"kernelfuzz nightly --report-only --state {self.state}")  # fmt: skip
        return Exit.INTERNAL if code is None or (not saved and code is Exit.OK) else code

    def again(self) -> Exit:
        """Everything of the latest night once more. Raises StateError where there is none, OSError."""
        path = self.state / DATABASE
        if not path.is_file():
            raise StateError(f"--state {self.state}: no night was ever run there")
        seen, err = view(open_state(path)), console.progress()
        code = self._exit_code(seen, err)
        return code if self.write(seen, err) or code is not Exit.OK else Exit.INTERNAL

    def write(self, seen: NightView, err: Console) -> bool:
        """Summary, record, reports, page; False, with a word why, where one of the files cannot be written."""
        print_night(console.results(), seen, self.state / PAGE)
        try:
            if self.json:
                self.json.write_text(json.dumps(night_record(seen), indent=1) + "\n", encoding="utf-8")
            write_reports(outline_of(seen, self.kernels, self._missing(seen)), self.reports)
            write_page(self.state / PAGE, seen)
        except OSError as error:
            _warn(err, f"not saved: {error.filename}: {error.strerror}")
            return False
        return True

    def _missing(self, seen: NightView) -> list[str]:
        return missing_targets(_tally(seen), globs(self.require))

    def _exit_code(self, seen: NightView, err: Console, *, interrupted: bool = False) -> Exit:
        return exit_code(_tally(seen), self.require, err, interrupted=interrupted)


def _tally(seen: NightView) -> Tally:
    """Of the whole night, whatever session saw it."""
    tally = Tally()
    for row in seen.targets:
        counts = TargetTally(row.name, row.kernel, row.judged, row.findings, row.gave_up, row.not_run)
        counts.not_run_reason = row.reason
        tally.targets[row.name] = counts
    return tally


def _warn(err: Console, line: str) -> None:
    err.print(line, style="yellow")


def leave(code: Exit) -> NoReturn:
    """End the process now. To take the interpreter apart takes longer than to save a night, and would wait for threads
    whose kernel is stuck."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
