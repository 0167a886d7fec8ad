"""The results of a night: its summary, its record and reports, and its page."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError

from fuzz.campaign.nightly.filing import Filing
from fuzz.campaign.nightly.opening import Opened, close
from fuzz.campaign.search.deadline import Stopping
from fuzz.campaign.starting import missing_targets
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.text import printable
from fuzz.findings.database import answering, is_shared, name_of, open_known, said_by
from fuzz.findings.database_views import NightView, view
from fuzz.findings.state import FINDINGS, ISSUES, PAGE, latest_state
from fuzz.findings.store import unsaved_path
from fuzz.report.console import print_lines
from fuzz.report.formats import ReportRequest, write_reports
from fuzz.report.night import (
    changes_of,
    command_again,
    night_outcome,
    night_record,
    outline_of,
    pairs_of,
    print_night,
    tally_of,
)
from fuzz.report.outline import Outline
from fuzz.report.page import write_page
from fuzz.report.use_outcome import UseOutcome

_NOTIFY_S = 60.0
"""The seconds that a notification may take, so that a command which waits for somebody does not keep a night."""


@dataclass(frozen=True)
class NightEnd:
    """How a night ended, as far as there was time to find out."""

    outcome: UseOutcome | None = None
    """The outcome of the whole night, with all its sessions; None if it could not be read."""
    saved: bool = False
    """Whether the state was saved, and the reports that the user waited for were written."""


@dataclass(frozen=True)
class NightResults:
    """A night's state, and the places to which its results go."""

    state: Path
    store: str | None
    """The URL of the database; None for the one in the folder."""
    require: Sequence[str]
    json: Path | None
    reports: Sequence[ReportRequest]
    kernels: Sequence[Kernel]
    """The kernels of the pack."""
    pack: Path | None
    """The folder of the pack."""
    out: Console
    err: Console
    notify: str | None = None
    """The command that is told of what a night changed."""
    gh: str | None = None
    """The repository on GitHub in which issues are filed; None to file none."""

    def finish(
        self, engine: Engine, opened: Opened, stopping: Stopping, saved: bool, in_memory: Callable[[], Engine],
        errors: Sequence[str] = (),
    ) -> NightEnd:  # fmt: skip
        """Save how the night ended, and report it. This takes as long as it needs, unless another signal comes; all is
        saved by then. `in_memory` returns the state, for a night that could not be saved."""
        if saved:
            try:
                how = "errors" if errors and stopping.ending == "limit" else stopping.ending
                close(engine, opened.position, how)
            except (OperationalError, InterfaceError) as error:
                self._warn(f"not saved: {name_of(engine)}: {said_by(error)}")
                saved = False
        ended, written = NightEnd(), None
        resume, report = (
            command_again(option, opened.command, self.state, self.store) for option in ("--resume", "--report-only")
        )
        if not saved and is_shared(engine):
            kept = unsaved_path(self.state / FINDINGS, opened.position)
            self._warn(f"the store {name_of(engine)} is away: what it was not told is kept in {kept}, and case files "
                       f"beside it; once it can be reached: {resume}")  # fmt: skip
            return ended
        with stopping.abortable(math.inf):
            try:
                seen = view(engine if saved else in_memory(), opened.night, self.state / FINDINGS)
            except (OperationalError, InterfaceError) as error:
                how = "all is saved, and" if saved else "the state"
                self._warn(f"{how} cannot be read: {name_of(engine)}: {said_by(error)}; then: {report}")
                return ended
            ended = self._ended(seen, errors, () if saved else ("the end of the night was not saved",))
            written = self._write(seen, ended)
            self._tell(seen)
            if saved:
                self._file(seen, engine)
        if not saved:
            self._warn(f"the end of the night was not saved: free some space, then: {resume}")
        elif not written:
            self._warn(f"all is saved, and not all reports were written: {report}")
        return NightEnd(ended.outcome, saved and written is not False)

    def again(self, since: int = 0) -> NightEnd:
        """Report the latest night again. Raises StateError if there is none, and OSError."""
        engine = open_known(self.store or f"sqlite:///{latest_state(self.state)}")
        with answering(engine):
            seen = view(engine, findings=self.state / FINDINGS, since=since)
        ended = self._ended(seen)
        return NightEnd(ended.outcome, self._write(seen, ended))

    def _ended(self, seen: NightView, errors: Sequence[str] = (), unsaved: Sequence[str] = ()) -> NightEnd:
        missing = missing_targets(tally_of(seen), self.require)
        for line in missing:
            self.err.print(line, style="bold red")
        return NightEnd(night_outcome(seen, missing, errors, unsaved))

    def _write(self, seen: NightView, ended: NightEnd) -> bool:
        """Write summary, record, reports and page. Return False if a file cannot be written, after printing why."""
        assert ended.outcome is not None
        pairs, page = pairs_of(seen, self.kernels), self.state / PAGE
        print_night(self.out, seen, self.kernels, pairs, ended.outcome)
        outline, before = outline_of(seen, self.kernels, ended.outcome), len(ended.outcome.unsaved)
        if self.json:
            record = json.dumps(night_record(seen, self.kernels, pairs), indent=1) + "\n"
            outline = self._written(outline, self.json, partial(self.json.write_text, record, encoding="utf-8"))
        outline = write_reports(outline, self.reports)
        last = partial(write_page, page, seen, pairs, self.kernels, self.pack, outline.outcome)
        whole = self._written(outline, page, last)
        if whole is outline:
            print_lines(self.out, [f"page: {page}"])
        else:
            write_reports(whole, self.reports)
        for line in whole.outcome.unsaved[before:]:
            self._warn(f"not saved: {line}")
        return len(whole.outcome.unsaved) == before

    def _file(self, seen: NightView, engine: Engine) -> None:
        """Write a text for each bug, and file those texts if a repository was named."""
        filing = Filing(self.state / ISSUES, {kernel.name: kernel for kernel in self.kernels}, self._warn, self.gh)
        try:
            texts = filing.write(seen)
        except OSError as error:
            self._warn(f"not written: {error.filename}: {error.strerror}")
            return
        if self.gh is not None:
            filing.file(seen, texts, engine)

    def _tell(self, seen: NightView) -> None:
        """Give the command of `--notify` the buckets that the night changed, if there are any."""
        changes = changes_of(seen)
        if self.notify is not None and any(changes.values()):
            facts = {"night": seen.night.id, "page": str((self.state / PAGE).absolute()), **changes}
            if why := notified(self.notify, json.dumps(facts) + "\n"):
                self._warn(f"not notified: {self.notify}: {why}")

    def _written(self, outline: Outline, path: Path, write: Callable[[], object]) -> Outline:
        """Return the outline; if the file cannot be written, it has the reason."""
        try:
            write()
        except OSError as error:
            return outline.but_unsaved([f"{error.filename or path}: {error.strerror}"])
        return outline

    def _warn(self, line: str) -> None:
        print_lines(self.err, [line], style="yellow")


def notified(command: str, told: str, seconds: float = _NOTIFY_S) -> str:
    """Run a command of the shell with a text on its stdin. Return why it failed, or ''."""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command], input=told.encode(), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {seconds:g} s"
    except OSError as error:
        return error.strerror or str(error)
    last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return f"exit code {done.returncode}{f': {printable(last)}' if last else ''}" if done.returncode else ""
