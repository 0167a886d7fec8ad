"""What happened since the last commit, and how it is added to the tables in one transaction.

Everything here is a count, a maximum or a smallest case, so that what cannot be saved, because the disk is full, waits
in memory without growing with the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import case as sql_case
from sqlalchemy import func
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.orm import Session as Transaction

from fuzz.findings.database import (
    AccuracyRow,
    Base,
    BucketRow,
    CoverageRow,
    LawRow,
    Night,
    PaceRow,
    Session,
    SightingRow,
    Slice,
    TargetRow,
    TwinRow,
)


@dataclass(frozen=True)
class Point:
    """Where an accuracy was seen; see `AccuracyRow`."""

    target: str
    dtype: str
    bin: int
    worst_case: bool


@dataclass
class Accuracy:
    """The worst err/budget at one point."""

    n: int
    ratio: float
    climb: float
    where: str
    runs: int = 1

    def add(self, other: Accuracy) -> None:
        """Keep the worse of the two; count both."""
        if other.ratio > self.ratio:
            self.n, self.ratio, self.climb, self.where = other.n, other.ratio, other.climb, other.where
        self.runs += other.runs


@dataclass
class TargetCounts:
    """Of one target."""

    judged: int = 0
    findings: int = 0
    gave_up: int = 0
    not_run: int = 0
    reason: str = ""

    def add(self, other: TargetCounts) -> None:
        """Add the counts; keep the latest reason."""
        self.judged += other.judged
        self.findings += other.findings
        self.gave_up += other.gave_up
        self.not_run += other.not_run
        self.reason = other.reason or self.reason


@dataclass
class BucketDelta:
    """One bucket: the smallest case seen, as the columns that say it, and how often it was seen where."""

    smallest: Mapping[str, Any]
    """columns of `BucketRow` that follow from the case."""
    sightings: Counter[str] = field(default_factory=Counter)
    """by target."""

    def replaces(self, size: int) -> bool:
        """Whether it is kept in place of a case of that size: it is smaller, or the same with an explanation."""
        mine = self.smallest["size"]
        return bool(mine < size or (mine == size and self.smallest.get("explanation")))


@dataclass(frozen=True)
class Move:
    """Findings that turned out to be of another bucket."""

    source: str
    into: str
    counts: Mapping[str, int] | None
    """by target, of this night; None: all of the bucket, of every night, which is gone then."""


@dataclass
class Delta:
    """Everything since the last commit."""

    cases: int = 0
    targets: dict[str, TargetCounts] = field(default_factory=dict)
    laws: Counter[str] = field(default_factory=Counter)
    twins: Counter[tuple[str, str]] = field(default_factory=Counter)
    """by target and law."""
    coverage: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """by op, kind and value."""
    accuracy: dict[Point, Accuracy] = field(default_factory=dict)
    pace: dict[int, list[int]] = field(default_factory=dict)
    """judged runs and cases by minute."""
    buckets: dict[str, BucketDelta] = field(default_factory=dict)
    """by signature."""
    moves: list[Move] = field(default_factory=list)
    """in their order, after `buckets`."""
    files: dict[str, str] = field(default_factory=dict)
    """names of case files that were written later than their rows, by signature."""
    passed: set[str] = field(default_factory=set)
    """signatures whose kept case was replayed and passed."""

    @property
    def judged(self) -> int:
        return sum(target.judged for target in self.targets.values())

    def add(self, other: Delta) -> None:
        """Take in what happened later."""
        self.cases += other.cases
        for name, counts in other.targets.items():
            self.targets.setdefault(name, TargetCounts()).add(counts)
        self.laws.update(other.laws)
        self.twins.update(other.twins)
        self.coverage.update(other.coverage)
        for point, accuracy in other.accuracy.items():
            if point in self.accuracy:
                self.accuracy[point].add(accuracy)
            else:
                self.accuracy[point] = accuracy
        for minute, (judged, cases) in other.pace.items():
            known = self.pace.setdefault(minute, [0, 0])
            known[0] += judged
            known[1] += cases
        for signature, bucket in other.buckets.items():
            earlier = self.buckets.setdefault(signature, BucketDelta(bucket.smallest))
            earlier.sightings.update(bucket.sightings)
            if bucket.replaces(earlier.smallest["size"]):
                earlier.smallest = bucket.smallest
        self.moves += other.moves
        self.files.update(other.files)
        self.passed |= other.passed


@dataclass(frozen=True)
class Clock:
    """How much of its time a night has used, as of this commit."""

    night: int
    session: int
    slice: int
    night_s: float
    session_s: float
    slice_s: float
    triage_s: float


def write(transaction: Transaction, delta: Delta, clock: Clock) -> None:
    """Add `delta` to the tables. All of it is committed by the caller, or nothing."""
    night = transaction.get_one(Night, clock.night)
    night.used_s, night.triage_s = clock.night_s, clock.triage_s
    transaction.get_one(Session, clock.session).used_s = clock.session_s
    part = transaction.get_one(Slice, clock.slice)
    part.seconds = clock.slice_s
    part.cases += delta.cases
    part.judged += delta.judged
    for name, counts in delta.targets.items():
        row = transaction.get_one(TargetRow, (clock.night, name))
        row.judged += counts.judged
        row.findings += counts.findings
        row.gave_up += counts.gave_up
        row.not_run += counts.not_run
        row.reason = counts.reason or row.reason
    keyed = {"night_id": clock.night}
    _count(transaction, LawRow, [{**keyed, "name": n, "compared": c} for n, c in delta.laws.items()], "compared")
    twins = [{**keyed, "target": name, "law": law, "compared": count} for (name, law), count in delta.twins.items()]
    _count(transaction, TwinRow, twins, "compared")
    visits = [
        {**keyed, "op": op, "kind": kind, "value": value, "count": count}
        for (op, kind, value), count in delta.coverage.items()
    ]
    _count(transaction, CoverageRow, visits, "count")
    minutes = [{**keyed, "minute": minute, "judged": j, "cases": c} for minute, (j, c) in delta.pace.items()]
    _count(transaction, PaceRow, minutes, "judged", "cases")
    _write_accuracy(transaction, delta, clock.night)
    for signature, bucket in delta.buckets.items():
        _write_bucket(transaction, signature, bucket, clock.night)
    for move in delta.moves:
        _move(transaction, move, clock.night)
    gone = {move.source for move in delta.moves if move.counts is None}
    for signature, name in delta.files.items():
        _bucket(transaction, signature).case_file = name
    for signature in delta.passed - set(delta.buckets) - gone:
        _bucket(transaction, signature).passed_night = clock.night


def _count(transaction: Transaction, table: type[Base], rows: Sequence[Mapping[str, Any]], *added: str) -> None:
    """Insert rows; where their key is there already, add the columns `added`."""
    if not rows:
        return
    statement = insert(table)
    sums = {name: getattr(table, name) + statement.excluded[name] for name in added}
    transaction.execute(statement.on_conflict_do_update(index_elements=_key(table), set_=sums), rows)


def _key(table: type[Base]) -> list[Any]:
    return list(table.__table__.primary_key.columns)  # type: ignore[attr-defined]


def _write_accuracy(transaction: Transaction, delta: Delta, night: int) -> None:
    rows = [{"night_id": night, **vars(point), **vars(accuracy)} for point, accuracy in delta.accuracy.items()]
    if not rows:
        return
    statement = insert(AccuracyRow)
    worse = statement.excluded.ratio > AccuracyRow.ratio
    kept: tuple[InstrumentedAttribute[Any], ...] = (AccuracyRow.n, AccuracyRow.climb, AccuracyRow.where)
    changes: dict[str, Any] = {c.key: sql_case((worse, statement.excluded[c.key]), else_=c) for c in kept}
    changes["ratio"] = func.max(AccuracyRow.ratio, statement.excluded.ratio)
    changes["runs"] = AccuracyRow.runs + statement.excluded.runs
    transaction.execute(statement.on_conflict_do_update(index_elements=_key(AccuracyRow), set_=changes), rows)


def _bucket(transaction: Transaction, signature: str) -> BucketRow:
    return transaction.query(BucketRow).filter_by(signature=signature).one()


def _write_bucket(transaction: Transaction, signature: str, bucket: BucketDelta, night: int) -> None:
    row = transaction.query(BucketRow).filter_by(signature=signature).one_or_none()
    if row is None:
        row = BucketRow(signature=signature, first_night=night, last_night=night, count=0, **bucket.smallest)
        transaction.add(row)
        transaction.flush()
    elif bucket.replaces(row.size):
        for name, value in bucket.smallest.items():
            setattr(row, name, value)
    row.last_night = night
    row.count += bucket.sightings.total()
    seen = [
        {"bucket_id": row.id, "night_id": night, "target": target, "count": count}
        for target, count in bucket.sightings.items()
    ]
    _count(transaction, SightingRow, seen, "count")


def _move(transaction: Transaction, move: Move, night: int) -> None:
    source, into = _bucket(transaction, move.source), _bucket(transaction, move.into)
    rows = transaction.query(SightingRow).filter_by(bucket_id=source.id)
    for row in rows if move.counts is None else rows.filter_by(night_id=night):
        moved = row.count if move.counts is None else min(row.count, move.counts.get(row.target, 0))
        if moved:
            seen = {"bucket_id": into.id, "night_id": row.night_id, "target": row.target, "count": moved}
            _count(transaction, SightingRow, [seen], "count")
        row.count -= moved
        source.count -= moved
        into.count += moved
        if row.count == 0:
            transaction.delete(row)
    into.first_night = min(into.first_night, source.first_night)
    into.last_night = max(into.last_night, source.last_night)
    transaction.flush()
    if move.counts is None:
        transaction.delete(source)
        transaction.flush()
