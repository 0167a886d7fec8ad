"""The results of a night: its summary, its record and reports, its page; the texts of its bugs, one file for each; and,
where it is asked for, their issues by GitHub's command `gh`."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from sqlalchemy import Engine, update
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

from fuzz.campaign.nightly.opening import Opened, close
from fuzz.campaign.search.deadline import Stopping
from fuzz.campaign.starting import missing_targets
from fuzz.core.base.case import CaseError
from fuzz.core.base.files import write_whole
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.text import printable
from fuzz.findings import casefile
from fuzz.findings.database import answering, is_shared, name_of, open_known, said_by
from fuzz.findings.database_views import BucketTotals, NightView, view
from fuzz.findings.state import FINDINGS, ISSUES, PAGE, latest_state
from fuzz.findings.store import unsaved_path
from fuzz.findings.tables import BucketRow
from fuzz.report import night
from fuzz.report.console import print_lines
from fuzz.report.filing import IssueText, closing_of, issue_of, returned_of
from fuzz.report.formats import ReportRequest, write_reports
from fuzz.report.outline import Outline
from fuzz.report.page import page
from fuzz.report.use_outcome import UseOutcome

_GH_S = 60.0
"""The seconds that one command of GitHub may take."""
_MOST = 10
"""The most issues that one night files. Chosen: a night with more has one cause that a person should see first."""


@dataclass(frozen=True)
class Filing:
    """The texts of a night's bugs. With a repository, `gh` files them there."""

    folder: Path
    kernels: Mapping[str, Kernel]
    say: Callable[[str], None]
    repository: str | None = None

    def write(self, seen: NightView) -> dict[str, IssueText]:
        """Write the text of each failing bug into the folder, remove those of others, and return the texts by
        signature."""
        found = {each.row.signature: (each, self._text(each, seen)) for each in seen.failing}
        texts = {name: text for name, (_, text) in found.items() if text is not None}
        names = {f"{Path(found[name][0].row.case_file).stem}.md": text for name, text in texts.items()}
        self.folder.mkdir(exist_ok=True)
        for path in self.folder.glob("*.md"):
            if path.name not in names:
                path.unlink()
        for file, text in names.items():
            (self.folder / file).write_text(str(text), encoding="utf-8")
        return texts

    def _text(self, bucket: BucketTotals, seen: NightView) -> IssueText | None:
        with suppress(CaseError, OSError):  # a bug whose case is gone has no program
            case, _ = casefile.load(seen.findings / bucket.row.case_file)
            return issue_of(bucket, seen, self.kernels.get(bucket.row.kernel), case)
        return None

    def file(self, seen: NightView, texts: Mapping[str, IssueText], engine: Engine) -> None:
        """File an issue for each bug that is explained and has none, close those of bugs that pass, and open again
        those of bugs that fail again. What fails is said, and tried again in the next night."""
        filed = 0
        for bucket in seen.buckets:
            text, url = texts.get(bucket.row.signature), bucket.row.issue
            passes = bucket.status == "passes now"
            if url and not url.startswith("https://"):  # anybody may have written the store
                continue
            try:
                if url and passes and bucket.row.issue_open:
                    self._gh(["issue", "close", url, "--comment", closing_of(bucket, seen)])
                    _remember(engine, bucket, url, is_open=False)
                elif url and text is not None and not bucket.row.issue_open:
                    self._gh(["issue", "reopen", url, "--comment", returned_of(bucket, seen)])
                    _remember(engine, bucket, url, is_open=True)
                elif not url and text is not None and bucket.told.explained != "not yet" and filed < _MOST:
                    filed += 1
                    _remember(engine, bucket, self._created(text), is_open=True)
            except (OSError, subprocess.SubprocessError, OperationalError, InterfaceError) as error:
                said = getattr(error, "stderr", None) or str(error)
                self.say(f"not filed: {bucket.row.kernel}: {printable(str(said).strip().rpartition(chr(10))[2])}")
                return

    def _created(self, text: IssueText) -> str:
        words = ["issue", "create", "--repo", self.repository or "", "--title", text.title, "--body-file", "-"]
        return self._gh(words, text.body).strip().rpartition("\n")[2]

    def _gh(self, words: Sequence[str], given: str = "") -> str:
        done = subprocess.run(["gh", *words], input=given, capture_output=True, text=True, timeout=_GH_S, check=True)
        self.say(f"gh {' '.join(words[:2])}: {done.stdout.strip() or words[2]}")
        return done.stdout


def _remember(engine: Engine, bucket: BucketTotals, url: str, *, is_open: bool) -> None:
    with Session(engine) as transaction, transaction.begin():
        of_bucket = update(BucketRow).filter_by(signature=bucket.row.signature)
        transaction.execute(of_bucket.values(issue=url, issue_open=is_open))


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
            night.command_again(option, opened.command, self.state, self.store)
            for option in ("--resume", "--report-only")
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
        missing = missing_targets(night.tally_of(seen), self.require)
        for line in missing:
            self.err.print(line, style="bold red")
        return NightEnd(night.night_outcome(seen, missing, errors, unsaved))

    def _write(self, seen: NightView, ended: NightEnd) -> bool:
        """Write summary, record, reports and page. Return False if a file cannot be written, after printing why."""
        assert ended.outcome is not None
        pairs, path = night.pairs_of(seen, self.kernels), self.state / PAGE
        night.print_night(self.out, seen, self.kernels, pairs, ended.outcome)
        outline, before = night.outline_of(seen, self.kernels, ended.outcome), len(ended.outcome.unsaved)
        if self.json:
            record = json.dumps(night.night_record(seen, self.kernels, pairs), indent=1) + "\n"
            outline = self._written(outline, self.json, partial(self.json.write_text, record, encoding="utf-8"))
        outline = write_reports(outline, self.reports)
        text = page(seen, pairs, self.kernels, self.pack, outline.outcome)
        whole = self._written(outline, path, partial(write_whole, path, text))
        if whole is outline:
            print_lines(self.out, [f"page: {path}"])
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
        changes = night.changes_of(seen)
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
