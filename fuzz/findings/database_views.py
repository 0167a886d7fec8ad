"""Reading a state: everything that the page and the summary of one night say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Engine, func, select
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
from fuzz.findings.state import StateError

_Row = TypeVar("_Row", bound=Base)


class Place(NamedTuple):
    """One row of `CoverageRow`. There are thousands: as objects of SQLAlchemy they would take seconds to read."""

    op: str
    kind: str
    value: str
    wanted: bool
    visits: int


class Mark(NamedTuple):
    """One row of `AccuracyRow`, of which a long night has tens of thousands."""

    target: str
    dtype: str
    bin: int
    worst_case: bool
    n: int
    ratio: float
    climb: float
    where: str
    runs: int


@dataclass(frozen=True)
class Bucket:
    """One bug, and what this night saw of it."""

    row: BucketRow
    sightings: dict[str, int]
    """by target, in this night."""
    status: str
    """'new' or 'still fails' in this night; 'not seen' in it; 'passes now': its kept case was replayed and passed."""


@dataclass(frozen=True)
class Past:
    """One night in a line."""

    night: Night
    judged: int
    buckets: int
    """that failed in it."""
    new: int


@dataclass(frozen=True)
class NightView:
    """One night, and the nights before it."""

    night: Night
    sessions: Sequence[Session]
    slices: Sequence[Slice]
    targets: Sequence[TargetRow]
    laws: Sequence[LawRow]
    twins: Mapping[str, Mapping[str, int]]
    """comparisons by target and law."""
    coverage: Sequence[Place]
    accuracy: Sequence[Mark]
    pace: Sequence[PaceRow]
    buckets: Sequence[Bucket]
    history: Sequence[Past]

    @property
    def judged(self) -> int:
        """Judged runs: one case on one target."""
        return sum(target.judged for target in self.targets)

    @property
    def cases(self) -> int:
        return sum(part.cases for part in self.slices)

    @property
    def failing(self) -> list[Bucket]:
        """Buckets that failed in this night."""
        return [bucket for bucket in self.buckets if bucket.status in ("new", "still fails")]


def view(engine: Engine, night: int | None = None) -> NightView:
    """The night of that number, or the latest. Raises StateError where there is none."""
    with Transaction(engine, expire_on_commit=False) as transaction:
        newest = select(Night).order_by(Night.id.desc()).limit(1)
        found = transaction.scalars(newest if night is None else select(Night).filter_by(id=night)).one_or_none()
        if found is None:
            raise StateError(f"{engine.url.database}: there is no night in it yet")
        return NightView(
            night=found,
            sessions=_rows(transaction, found.id, Session, Session.id),
            slices=_rows(transaction, found.id, Slice, Slice.number),
            targets=_rows(transaction, found.id, TargetRow, TargetRow.op, TargetRow.kernel, TargetRow.name),
            laws=_rows(transaction, found.id, LawRow, LawRow.name),
            twins=_twins(transaction, found.id),
            coverage=_places(transaction, found.id),
            accuracy=[Mark(*row) for row in _columns(transaction, found.id, AccuracyRow, Mark._fields)],
            pace=_rows(transaction, found.id, PaceRow, PaceRow.minute),
            buckets=_buckets(transaction, found.id),
            history=_history(transaction, found.id),
        )


def _rows(transaction: Transaction, night: int, table: type[_Row], *order: Any) -> Sequence[_Row]:
    return transaction.scalars(select(table).filter_by(night_id=night).order_by(*order)).all()


def _twins(transaction: Transaction, night: int) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for target, law, compared in _columns(transaction, night, TwinRow, ("target", "law", "compared")):
        found.setdefault(target, {})[law] = compared
    return found


def _places(transaction: Transaction, night: int) -> list[Place]:
    names = ("op", "kind", "value", "wanted", "count")
    return [Place(*row) for row in _columns(transaction, night, CoverageRow, names)]


def _columns(transaction: Transaction, night: int, table: type[Base], names: Sequence[str]) -> Iterable[Any]:
    """Plain rows, in the order of the table's key."""
    columns = table.__table__.columns
    chosen = select(*(columns[name] for name in names)).where(columns["night_id"] == night)
    return transaction.execute(chosen.order_by(*table.__table__.primary_key))


def _buckets(transaction: Transaction, night: int) -> list[Bucket]:
    sightings: dict[int, Counter[str]] = {}
    for row in transaction.scalars(select(SightingRow).filter_by(night_id=night)):
        sightings.setdefault(row.bucket_id, Counter())[row.target] += row.count
    found = [
        Bucket(row, dict(sightings.get(row.id, Counter()).most_common()), _status(row, night))
        for row in transaction.scalars(select(BucketRow).where(BucketRow.first_night <= night))
    ]
    order = ("new", "still fails", "not seen", "passes now")
    return sorted(found, key=lambda bucket: (order.index(bucket.status), bucket.row.kernel, bucket.row.signature))


def _status(row: BucketRow, night: int) -> str:
    if row.last_night == night:
        return "new" if row.first_night == night else "still fails"
    return "passes now" if row.passed_night is not None and row.passed_night > row.last_night else "not seen"


def _history(transaction: Transaction, night: int) -> list[Past]:
    judged = dict(
        transaction.execute(select(TargetRow.night_id, func.sum(TargetRow.judged)).group_by(TargetRow.night_id)).all()
    )
    failing = dict(
        transaction.execute(
            select(SightingRow.night_id, func.count(SightingRow.bucket_id.distinct())).group_by(SightingRow.night_id)
        ).all()
    )
    new = Counter(transaction.scalars(select(BucketRow.first_night)))
    nights = transaction.scalars(select(Night).where(Night.id <= night).order_by(Night.id))
    return [Past(each, judged.get(each.id, 0), failing.get(each.id, 0), new[each.id]) for each in nights]
