"""Stores: where findings outlive the process that found them. All of them keep the cases as files.

A store is told of everything in batches. A batch is what happened since the one before; it is saved whole or not at
all. What a shared store could not be told waits in a file in the folder of findings.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from fuzz.core.base.case import Case
from fuzz.core.base.files import write_whole
from fuzz.core.generate.conditions import Together
from fuzz.findings.bucket import Bucket
from fuzz.findings.tally import Point, WorstRun


def utc_now() -> datetime:
    """Return the time in UTC, without a zone, as the tables hold it."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


@dataclass
class Position:
    """A position in a night: the slice that is running, and when it and the session began."""

    night: int
    session: int
    earlier_s: float
    """The seconds of the night that earlier sessions have used."""
    began: float
    slice: int = 0
    slice_began: float = 0.0
    triage_s: float = 0.0
    """The seconds of this session that were spent on shrinking and explaining."""
    earlier_triage_s: float = 0.0
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    """Identifies this session where others took it for ended and have its shards under another token."""
    epoch: int | None = None
    """The number of the slice in its night; None before there is one."""
    saved: int = 0
    """The number of batches of the session that are known to be saved."""

    @property
    def used_s(self) -> float:
        """The seconds of this session."""
        return time.monotonic() - self.began

    @property
    def slice_s(self) -> float:
        """The seconds of the slice."""
        return time.monotonic() - self.slice_began

    @property
    def minute(self) -> int:
        """The minutes that the night has taken, earlier sessions included."""
        return int((self.earlier_s + self.used_s) // 60)


@dataclass
class Unsaved:
    """What happened since the last batch. Everything here is a count, a maximum or the latest state of a bucket, so
    that what cannot be saved, because the disk is full, waits in memory without growing with the run."""

    cases: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The number of cases, by slice of the night and minute of the night's own time."""
    judged: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The number of judged runs, by the same slice and minute."""
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """The counts, by what is counted and of what: ('judged', target), ('compared', law), ('twin', target, law),
    ('visit', op, kind, value)."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The latest reason why a target did not run a case, by target."""
    broken: dict[str, str] = field(default_factory=dict)
    """By target, what to do about a kernel that cannot be called as declared."""
    together: dict[str, Together] = field(default_factory=dict)
    """Which conditions held together in judged cases, by op."""
    accuracy: dict[Point, WorstRun] = field(default_factory=dict)
    sightings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of failing runs, by bucket and target. It is negative where runs turned out to be of another
    bucket."""
    buckets: dict[str, Bucket] = field(default_factory=dict)
    """The buckets that keep another case than before, or know more of it, in the state they had then."""
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The same buckets as rows of a table, for a store in a database."""
    files: dict[str, str] = field(default_factory=dict)
    """The contents of their case files, by name."""
    merged: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of a bucket that is gone and the bucket that now has its findings of every night. They apply in order,
    after `sightings`."""
    passed: set[str] = field(default_factory=set)
    """The buckets whose kept case was replayed and passed."""
    released: list[Path] = field(default_factory=list)
    """The case files that no bucket names any longer."""

    def note(self, point: Point, worst: WorstRun) -> None:
        """Count a passing run."""
        known = self.accuracy.get(point)
        self.accuracy[point] = worst if known is None else known.joined(worst)

    def add(self, later: Unsaved) -> None:
        """Take in what happened later."""
        for mine, theirs in ((self.cases, later.cases), (self.judged, later.judged)):
            mine.update(theirs)
        self.counts.update(later.counts)
        self.sightings.update(later.sightings)
        self.reasons |= later.reasons
        self.broken |= later.broken
        self.buckets |= later.buckets
        self.rows |= later.rows
        self.files |= later.files
        self.merged += later.merged
        self.passed |= later.passed
        self.released += later.released
        for op, together in later.together.items():
            self.together.setdefault(op, Together()).add(together)
        for point, worst in later.accuracy.items():
            self.note(point, worst)


class Store(Protocol):
    """Keeps what a book of findings tells it."""

    folder: Path
    """The folder where the case files are."""

    def release(self, path: Path, batch: Unsaved) -> None:
        """Remove a case file that no bucket names any longer. If something saved still names it, that is done in its
        batch."""

    def commit(self, batch: Unsaved) -> str:
        """Save a batch. Returns why that is not possible, or ''; then it is tried again with the next one."""


class FileStore:
    """Keeps case files and nothing else: counts are gone with the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def release(self, path: Path, batch: Unsaved) -> None:
        path.unlink(missing_ok=True)

    def commit(self, batch: Unsaved) -> str:
        return ""


def evidence_path(folder: Path, case: Case) -> Path:
    """Return where the case of an internal error is written."""
    return folder / f"internal-{case.digest[:12]}.json"


_KIND, _VERSION = "kernelfuzz unsaved", 1


def unsaved_path(folder: Path, position: Position) -> Path:
    """Return where a session keeps what its store could not be told."""
    return folder / f"night-{position.night}-session-{position.session}.unsaved"


def write_unsaved(path: Path, position: Position, batches: Sequence[Unsaved]) -> None:
    """Write these batches. The first may be saved already: the store's answer was lost. Raises OSError."""
    where = {
        **{name: getattr(position, name) for name in ("night", "session", "slice", "epoch", "token", "saved")},
        "used_s": position.used_s,
        "slice_s": position.slice_s,
        "triage_s": position.triage_s,
    }
    record = {_KIND: _VERSION, **where, "batches": [_told(batch) for batch in batches]}
    write_whole(path, json.dumps(record, separators=(",", ":")) + "\n")


def read_unsaved(path: Path) -> tuple[Position, list[Unsaved]]:
    """Return what `write_unsaved` wrote. Raises ValueError for another file, and OSError."""
    record = json.loads(path.read_text(encoding="utf-8"))
    try:
        if record[_KIND] != _VERSION:
            raise ValueError(f"{path}: was written by another version of kernelfuzz")
        now = time.monotonic()
        position = Position(
            record["night"], record["session"], 0.0, now - record["used_s"], record["slice"], now - record["slice_s"],
            record["triage_s"], token=record["token"], epoch=record["epoch"], saved=record["saved"],
        )  # fmt: skip
        return position, [_batch(each, path.parent) for each in record["batches"]]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: is not what a store was to be told") from error


def _told(batch: Unsaved) -> dict[str, Any]:
    counted = {name: list(getattr(batch, name).items()) for name in ("cases", "judged", "counts", "sightings")}
    return {
        **counted,
        **{name: getattr(batch, name) for name in ("reasons", "broken", "rows", "files", "merged")},
        "together": {op: together.record(op) for op, together in batch.together.items()},
        "accuracy": [[asdict(point), asdict(worst)] for point, worst in batch.accuracy.items()],
        "passed": sorted(batch.passed),
        "released": [path.name for path in batch.released],
    }


def _batch(told: dict[str, Any], folder: Path) -> Unsaved:
    counted: dict[str, Any] = {
        name: Counter({tuple(key): count for key, count in told[name]})
        for name in ("cases", "judged", "counts", "sightings")
    }
    return Unsaved(
        **counted,
        **{name: told[name] for name in ("reasons", "broken", "rows", "files")},
        merged=[(source, into) for source, into in told["merged"]],
        together={op: Together.of_record(op, record) for op, record in told["together"].items()},
        accuracy={Point(**point): WorstRun(**worst) for point, worst in told["accuracy"]},
        passed=set(told["passed"]),
        released=[folder / name for name in told["released"]],
    )
