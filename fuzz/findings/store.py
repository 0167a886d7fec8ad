"""Stores: where findings outlive the process that found them. All of them keep the cases as files.

A store is told of everything in batches. A batch is what happened since the one before; it is saved whole or not at
all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fuzz.base.case import Case
from fuzz.findings.accuracy import Point, WorstRun
from fuzz.findings.bucket import Bucket
from fuzz.generate.conditions import Together


@dataclass
class Unsaved:
    """What happened since the last one. Everything here is a count, a maximum or the latest state of a bucket, so that
    what cannot be saved, because the disk is full, waits in memory without growing with the run."""

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
    """What is to be done about kernels that cannot be called as they are declared, by target."""
    together: dict[str, Together] = field(default_factory=dict)
    """Which conditions held together in judged cases, by op."""
    accuracy: dict[Point, WorstRun] = field(default_factory=dict)
    sightings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of failing runs, by bucket and target. It is negative where runs turned out to be of another
    bucket."""
    buckets: dict[str, Bucket] = field(default_factory=dict)
    """The buckets that keep another case than before, or know more of it, as they were at that time."""
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The same buckets as rows of a table, where the store is one of those."""
    files: dict[str, str] = field(default_factory=dict)
    """The contents of their case files, by name."""
    merged: list[tuple[str, str]] = field(default_factory=list)
    """Each pair is a bucket that is gone and the bucket that has its findings of every night. The pairs apply in their
    order, after `sightings`."""
    passed: set[str] = field(default_factory=set)
    """The buckets whose kept case was replayed and passed."""
    released: list[Path] = field(default_factory=list)
    """The case files that no bucket names any longer."""

    def note(self, point: Point, worst: WorstRun) -> None:
        """A passing run."""
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
        """Remove a case file that no bucket names any longer: with this batch, where something saved names it still."""

    def commit(self, batch: Unsaved) -> str:
        """Save a batch; why that is not possible, or ''. What is not saved is tried again with the next one."""


class FileStore:
    """Keeps case files and nothing else: what was counted is gone with the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def release(self, path: Path, batch: Unsaved) -> None:
        path.unlink(missing_ok=True)

    def commit(self, batch: Unsaved) -> str:
        return ""


def evidence_path(folder: Path, case: Case) -> Path:
    """Where the case of an internal error goes."""
    return folder / f"internal-{case.digest[:12]}.json"
