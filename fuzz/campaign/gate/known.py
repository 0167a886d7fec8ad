"""The failures that the gate lets pass: known ones, each with an issue and a day on which its entry expires, and, with
a store, those that failed before the change."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from fuzz.campaign.corpus.folder import Kept, entries_of, load
from fuzz.core.adapters.target import TargetId
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.errors import UsageError
from fuzz.core.base.text import printable
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.findings import document
from fuzz.findings.bucket import Bucket
from fuzz.findings.document import told
from fuzz.findings.state import StateError, short_words
from fuzz.findings.store import Position
from fuzz.findings.tally import Observer

_REQUIRED = ("kernel", "verdict", "issue", "expires")
_OPTIONAL = ("law", "target", "case")


class KnownError(UsageError):
    """A file of known failures cannot be read. The message names the entry."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


@dataclass(frozen=True)
class Known:
    """An entry for one known failure."""

    kernel: str
    verdict: str
    issue: str
    """A link to the issue."""
    expires: date
    """The first day on which the failure makes the gate fail again."""
    law: str = ""
    """The law that fails, for FAIL_LAW. Empty means any law."""
    target: str = "*"
    """A glob for the targets on which the failure is expected."""
    case: Path | None = None
    """A case file that shows the failure. The gate runs it, and so notices when the failure is fixed."""

    def covers(self, kernel: str, verdict: str, law: str, target: str) -> bool:
        """Whether the entry covers a finding."""
        named = (self.kernel, self.verdict) == (kernel, verdict) and self.law in ("", law)
        return named and fnmatchcase(target, self.target)

    def __str__(self) -> str:
        law = f" {self.law}" if self.law else ""
        return f"{self.kernel} {self.verdict}{law} ({self.issue}, until {self.expires})"


@dataclass
class KnownFailures:
    """The entries of known failures, and which of them were seen in this session."""

    entries: Sequence[Known]
    today: date
    seen: set[Known] = field(default_factory=set)

    def covering(self, kernel: str, verdict: str, law: str, target: str) -> Known | None:
        """Return the entry that covers a finding, even if it has expired; None if there is none."""
        for entry in self.entries:
            if entry.covers(kernel, verdict, law, target):
                self.seen.add(entry)
                return entry
        return None

    def complaints(self, judged: Collection[str], searched: Collection[str]) -> list[str]:
        """Return lines that fail the gate: expired entries, and entries whose failure was looked for and not seen.
        `judged` are the kernels that ran, `searched` those whose inputs were searched: only a search can tell that a
        failure without a case file is gone."""
        lines = [f"known failure expired: {entry}" for entry in self.entries if entry.expires <= self.today]
        for entry in self.entries:
            looked_for = entry.kernel in (judged if entry.case is not None else searched)
            if looked_for and entry not in self.seen and entry.expires > self.today:
                lines.append(f"known failure is gone: remove {entry}")
        return lines

    def notes(self, judged: Collection[str], searched: Collection[str]) -> list[str]:
        """Return lines about the entries that were not looked for in this session."""
        return [
            f"known failure not looked for: {entry}; name a case file that shows it"
            for entry in self.entries
            if entry not in self.seen and entry.kernel not in (judged if entry.case is not None else searched)
        ]


def load_known(path: Path) -> tuple[Known, ...]:
    """Read the entries of a TOML or JSON file with a list 'known'. Raises KnownError."""
    try:
        text = document.read_text(path)
        record = document.parsed(text) if path.suffix == ".json" else tomllib.loads(text)
    except (RecursionError, ValueError) as error:  # includes TOMLDecodeError and CaseError
        said = str(error).removeprefix(f"{path}: ")
        raise KnownError(f"--known {path}: {said}") from error
    entries = record.get("known") if isinstance(record, dict) else None
    if not isinstance(entries, list) or set(record) != {"known"}:
        raise KnownError(f"--known {path}: must hold a list called 'known' and nothing else: [[known]] in TOML")
    return tuple(_entry(entry, f"--known {path}: entry {number}", path) for number, entry in enumerate(entries, 1))


def _entry(record: object, where: str, path: Path) -> Known:
    if not isinstance(record, dict):
        raise KnownError(f"{where}: is not a table")
    missing = [name for name in _REQUIRED if name not in record]
    unknown = [name for name in record if name not in (*_REQUIRED, *_OPTIONAL)]
    if missing or unknown:
        what = f"{missing[0]} is missing" if missing else f"{unknown[0]} means nothing"
        raise KnownError(f"{where}: {what}; an entry has {', '.join(_REQUIRED)}, and may have {', '.join(_OPTIONAL)}")
    words = {name: record[name] for name in record if name not in ("expires", "case")}
    if not all(isinstance(word, str) for word in words.values()):
        raise KnownError(f"{where}: {', '.join(words)} must be text")
    words = {name: printable(word) for name, word in words.items()}
    if record["verdict"] not in {verdict.value for verdict in Verdict if verdict.is_finding}:
        raise KnownError(f"{where}: verdict: {record['verdict']!r} is not the verdict of a finding")
    case = record.get("case")
    if case is not None and not (path.parent / str(case)).is_file():
        raise KnownError(f"{where}: case: {path.parent / str(case)} does not exist")
    return Known(**words, expires=_day(record["expires"], where), case=path.parent / str(case) if case else None)


def _day(value: Any, where: str) -> date:
    if isinstance(value, datetime):
        return value.date()
    try:
        return value if isinstance(value, date) else date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise KnownError(f"{where}: expires: {told(value)} is not a day such as 2027-01-31") from error


@dataclass
class Before(Observer):
    """An observer that recognises failures from before the change. It reads the store and writes nothing to it."""

    buckets: Mapping[str, Bucket] = field(default_factory=dict)
    """The bugs that were open or flaky, by name."""
    nights: Mapping[str, int] = field(default_factory=dict)
    """The night in which each bug failed first, by name."""
    kept: Sequence[Kept] = ()
    """The case files of these bugs."""
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The names of the bugs of each case, by its digest: two kernels may fail on one case."""
    mended: set[str] = field(default_factory=set)
    """The names of the bugs whose case passes now."""

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        verdicts = {each.target: each.verdict for each in judgements}
        for bucket in (self.buckets[name] for name in self.names.get(case.digest, ())):
            own = [each for name, each in verdicts.items() if TargetId.parse(name).kernel == bucket.kernel]
            if verdicts.get(bucket.target) is Verdict.PASS and not any(each.is_finding for each in own):
                self.mended.add(bucket.name)

    @property
    def better(self) -> tuple[str, ...]:
        """A line for each bug that is fixed, with the case that shows it."""
        shown = {name: short_words(path, ())[0] for name in self.mended if (path := self.buckets[name].path)}
        return tuple(
            f"{name}, since night {self.nights[name]}: passes now: kernelfuzz repro {shown[name]} --store ..."
            for name in sorted(self.mended)
        )

    def issue(self, bucket: Bucket) -> str:
        """Return in words where a failure is known from; '' if it is not known."""
        return f"the store, since night {self.nights[bucket.name]}" if bucket.name in self.nights else ""


def before(store: str, folder: Path) -> Before:
    """Return the open bugs of a store, after writing their case files to the folder. Raises StateError."""
    from fuzz.findings.database import open_store
    from fuzz.findings.database_store import DatabaseStore, restore
    from fuzz.findings.database_views import view

    engine = open_store(store)
    try:
        bugs = {bug.signature: bug for bug in view(engine).trends.bugs if bug.status != "fixed"}
    except StateError:  # no night yet
        return Before()
    restore(engine, folder)
    known = DatabaseStore(engine, folder, Position(0, 0, 0.0, 0.0)).load()
    engine.dispose()
    buckets = {name: bucket for name, bucket in known.items() if name in bugs}
    kept, names = dict(_loaded(buckets)), dict[str, list[str]]()
    for name, each in kept.items():
        names.setdefault(entries_of(each)[-1].case.digest, []).append(name)
    return Before(buckets, {name: bugs[name].first for name in buckets}, list(kept.values()), names)


def _loaded(buckets: Mapping[str, Bucket]) -> list[tuple[str, Kept]]:
    """Return the cases that can be read and that fail without earlier calls, with the names of their buckets."""
    found = []
    for name, bucket in buckets.items():
        try:
            if bucket.path is not None and bucket.path.exists() and bucket.alone:
                found.append((name, load(bucket.path)))
        except CaseError:  # the change removed its op
            continue
    return found
