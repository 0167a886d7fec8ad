"""What a night ends with: its summary, its record and reports, and its page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError

from fuzz.base.kernel import Kernel
from fuzz.findings.database import is_shared, name_of, open_state, open_store, said_by
from fuzz.findings.database_views import NightView, view
from fuzz.findings.state import FINDINGS, PAGE, latest_state
from fuzz.findings.unsaved import unsaved_path
from fuzz.report.formats import Wanted, write_reports
from fuzz.report.night import night_outcome, night_record, outline_of, pairs_of, print_night, tally_of
from fuzz.report.page import write_page
from fuzz.report.use_outcome import UseOutcome
from fuzz.uses.nightly.opening import Opened, close
from fuzz.uses.search.stopping import LAST_S, Stopping
from fuzz.uses.starting import missing_targets


@dataclass(frozen=True)
class NightEnd:
    """How a night ended, as far as there was time to look."""

    outcome: UseOutcome | None = None
    """The outcome of the whole night, whatever session saw it."""
    saved: bool = False


@dataclass(frozen=True)
class NightResults:
    """Where the results of a night go."""

    state: Path
    store: str | None
    """The URL of the database, where it is not that of the folder."""
    require: Sequence[str]
    json: Path | None
    reports: Sequence[Wanted]
    kernels: Sequence[Kernel]
    """The kernels of the pack."""
    pack: Path | None
    """Its folder."""
    out: Console
    err: Console

    def finish(self, engine: Engine, opened: Opened, stopping: Stopping, saved: bool) -> NightEnd:
        """Say how the night ended, first in the state. What takes too long then is left out: the state has it all."""
        if saved:
            try:
                close(engine, opened.position, "signal" if stopping.signalled else "limit")
            except (OperationalError, InterfaceError) as error:
                self._warn(f"not saved: {name_of(engine)}: {said_by(error)}")
                saved = False
        ended, whole = NightEnd(), False
        if not saved and is_shared(engine):
            self._tell_unsaved(engine, opened)
            return ended
        with stopping.abortable(LAST_S):
            seen = view(engine, opened.night, self.state / FINDINGS)
            ended = self._ended(seen)
            saved = self._write(seen, ended) and saved
            whole = True
        if not saved:
            self._warn("the end of the night was not saved: free some space, then: "
                       f"kernelfuzz nightly --resume --state {self.state}")  # fmt: skip
        elif not whole:
            self._warn("all is saved, and there was no time to write the page: "
                       f"kernelfuzz nightly --report-only --state {self.state}")  # fmt: skip
        return NightEnd(ended.outcome, saved)

    def _tell_unsaved(self, engine: Engine, opened: Opened) -> None:
        folder = self.state / FINDINGS
        self._warn(f"the store {name_of(engine)} is away: what it was not told is kept in "
                   f"{unsaved_path(folder, opened.position)}, and case files beside it; once it can be reached: "
                   f"kernelfuzz nightly --resume --state {self.state} --store ...")  # fmt: skip

    def again(self, since: int = 0) -> NightEnd:
        """Everything of the latest night once more. Raises StateError where there is none, OSError."""
        engine = open_state(latest_state(self.state)) if self.store is None else open_store(self.store)
        seen = view(engine, findings=self.state / FINDINGS, since=since)
        ended = self._ended(seen)
        return NightEnd(ended.outcome, self._write(seen, ended))

    def _ended(self, seen: NightView) -> NightEnd:
        missing = missing_targets(tally_of(seen), self.require)
        for line in missing:
            self.err.print(line, style="bold red")
        return NightEnd(night_outcome(seen, missing))

    def _write(self, seen: NightView, ended: NightEnd) -> bool:
        """Summary, record, reports, page; False, with a word why, where one of the files cannot be written."""
        assert ended.outcome is not None
        pairs, outline = pairs_of(seen, self.kernels), outline_of(seen, self.kernels, ended.outcome)
        print_night(self.out, seen, self.kernels, self.state / PAGE, pairs, ended.outcome)
        try:
            if self.json:
                record = night_record(seen, self.kernels, pairs)
                self.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            write_reports(outline, self.reports)
            write_page(self.state / PAGE, seen, pairs, self.kernels, self.pack, ended.outcome)
        except OSError as error:
            self._warn(f"not saved: {error.filename}: {error.strerror}")
            return False
        return True

    def _warn(self, line: str) -> None:
        self.err.print(line, style="yellow", soft_wrap=True)
