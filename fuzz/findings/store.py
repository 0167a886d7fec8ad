"""Stores: they keep findings after the process that found them has ended, the cases always as files.

A store receives batches. A batch is what happened since the last one, and is saved completely or not at all. Batches
that a shared store did not receive wait in a file in the folder of findings.
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

from fuzz.core.base.files import write_whole
from fuzz.core.generate.conditions import Together
from fuzz.findings.bucket import Bucket
from fuzz.findings.tally import Point, WorstRun


def utc_now() -> datetime:
    """Return the present time in UTC, without a zone, as the tables store it."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


@dataclass
class Position:
    """A session's place in a night: its slice and shards, and the seconds used so far."""

    night: int
    session: int
    earlier_s: float
    """The seconds of the night that earlier sessions used."""
    began: float
    slice: int = 0
    slice_began: float = 0.0
    triage_s: float = 0.0
    """The seconds of this session that went into shrinking and explaining."""
    earlier_triage_s: float = 0.0
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    """Identifies this session. If others took it for ended, its shards have another token."""
    epoch: int | None = None
    """The number of the slice in its night; None before the first slice."""
    saved: int = 0
    """The number of batches of the session that were surely saved."""

    @property
    def used_s(self) -> float:
        """The seconds that this session has taken."""
        return time.monotonic() - self.began

    @property
    def slice_s(self) -> float:
        """The seconds that the slice has taken."""
        return time.monotonic() - self.slice_began

    @property
    def minute(self) -> int:
        """The minutes that the night has taken, with all its sessions."""
        return int((self.earlier_s + self.used_s) // 60)


_COUNTED, _LATEST = ("cases", "judged", "counts", "sightings"), ("reasons", "broken", "rows", "files")
"""The fields of a batch that are counters, and those of which the latest text or row counts."""


@dataclass
class Unsaved:
    """The changes since the last batch. All are counts, maxima, or the latest state of a bucket, so that a batch which
    cannot be saved waits in memory without growing with the session."""

    cases: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The number of cases, by slice of the night and minute of the night's own time."""
    judged: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The number of judged runs, by the same slice and minute."""
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """The counts by the name of the counter and its subject: ('judged', target), ('compared', law), ('twin', target,
    law), ('visit', op, kind, value)."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The latest reason why a target did not run a case, by target."""
    broken: dict[str, str] = field(default_factory=dict)
    """The remedy for each target whose kernel cannot be called as declared."""
    together: dict[str, Together] = field(default_factory=dict)
    """The pairs of conditions that held together in judged cases, by op."""
    accuracy: dict[Point, WorstRun] = field(default_factory=dict)
    sightings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of failing runs, by bucket and target; negative if runs were moved to another bucket."""
    buckets: dict[str, Bucket] = field(default_factory=dict)
    """The buckets that changed, in their state at that time."""
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The same buckets as rows of a table, for a store in a database."""
    files: dict[str, str] = field(default_factory=dict)
    """The contents of the buckets' case files, by name."""
    merged: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of a merged bucket and the bucket that has its findings now, to apply in order, after `sightings`."""
    passed: set[str] = field(default_factory=set)
    """The buckets whose kept case ran again and passed."""
    released: list[Path] = field(default_factory=list)
    """The case files that no bucket names any more."""

    def note(self, point: Point, worst: WorstRun) -> None:
        """Count a passing run."""
        known = self.accuracy.get(point)
        self.accuracy[point] = worst if known is None else known.joined(worst)

    def add(self, later: Unsaved) -> None:
        """Add the changes of a later batch."""
        for name in (*_COUNTED, *_LATEST, "buckets", "passed"):
            getattr(self, name).update(getattr(later, name))  # a counter adds
        self.merged += later.merged
        self.released += later.released
        for op, together in later.together.items():
            self.together.setdefault(op, Together()).add(together)
        for point, worst in later.accuracy.items():
            self.note(point, worst)


class Store(Protocol):
    """Keeps the findings of a book."""

    folder: Path
    """The folder of the case files."""

    def release(self, path: Path, batch: Unsaved) -> None:
        """Remove a case file that no bucket names any more; if something saved still names it, only with the batch."""

    def commit(self, batch: Unsaved) -> str:
        """Save a batch. Return the reason if that fails, or ''. A failed batch is tried again with the next one."""


class FileStore:
    """A store of case files alone: counts are lost when the process ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def release(self, path: Path, batch: Unsaved) -> None:
        path.unlink(missing_ok=True)

    def commit(self, batch: Unsaved) -> str:
        return ""


_KIND, _VERSION = "kernelfuzz unsaved", 1


def unsaved_path(folder: Path, position: Position) -> Path:
    """Return the path for the batches that a session could not save."""
    return folder / f"night-{position.night}-session-{position.session}.unsaved"


def write_unsaved(path: Path, position: Position, batches: Sequence[Unsaved]) -> None:
    """Write these batches. The first may have been saved, if only the store's answer was lost. Raises OSError."""
    names = ("night", "session", "slice", "epoch", "token", "saved", "used_s", "slice_s", "triage_s")
    where = {name: getattr(position, name) for name in names}
    record = {_KIND: _VERSION, **where, "batches": [_told(batch) for batch in batches]}
    write_whole(path, json.dumps(record, separators=(",", ":")) + "\n")


def read_unsaved(path: Path) -> tuple[Position, list[Unsaved]]:
    """Return the position and the batches in a file of `write_unsaved`. Raises ValueError and OSError."""
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
    return {
        **{name: list(getattr(batch, name).items()) for name in _COUNTED},
        **{name: getattr(batch, name) for name in (*_LATEST, "merged")},
        "together": {op: together.record(op) for op, together in batch.together.items()},
        "accuracy": [[asdict(point), asdict(worst)] for point, worst in batch.accuracy.items()],
        "passed": sorted(batch.passed),
        "released": [path.name for path in batch.released],
    }


def _batch(told: dict[str, Any], folder: Path) -> Unsaved:
    counted: dict[str, Any] = {name: Counter({tuple(key): n for key, n in told[name]}) for name in _COUNTED}
    return Unsaved(
        **counted,
        **{name: told[name] for name in _LATEST},
        merged=[(source, into) for source, into in told["merged"]],
        together={op: Together.of_record(op, record) for op, record in told["together"].items()},
        accuracy={Point(**point): WorstRun(**worst) for point, worst in told["accuracy"]},
        passed=set(told["passed"]),
        released=[folder / name for name in told["released"]],
    )
