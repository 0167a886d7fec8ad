"""Buckets of the store as they are read: those that were merged by hand are one, in all nights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from fuzz.findings.tables import BucketRow, JoinRow, PassRow, SightingRow, home_of


@dataclass(frozen=True)
class JoinedBucket:
    """A bucket, with those that were merged into it by hand."""

    row: BucketRow
    seen: dict[int, Counter[str]]
    """The number of failing runs by night and target."""
    passed: set[int]
    """The nights in which its case passed, and those of all that were merged into it."""
    passed_night: int | None
    """The latest of these nights."""


def joined_buckets(transaction: Session) -> list[JoinedBucket]:
    """Return every bucket that was not merged into another one by hand."""
    seen: dict[int, dict[int, Counter[str]]] = {}
    for row in transaction.scalars(select(SightingRow)):
        seen.setdefault(row.bucket_id, {}).setdefault(row.night_id, Counter())[row.target] += row.count
    passed: dict[int, set[int]] = {}
    for each in transaction.scalars(select(PassRow)):
        passed.setdefault(each.bucket_id, set()).add(each.night_id)
    rows = {row.signature: row for row in transaction.scalars(select(BucketRow).order_by(BucketRow.id))}
    into = {row.signature: row.into for row in transaction.scalars(select(JoinRow)) if row.into in rows}
    parts: dict[str, list[BucketRow]] = {}
    for name in sorted(rows, key=lambda name: home_of(name, into) != name):  # each home before its guests
        parts.setdefault(home_of(name, into), []).append(rows[name])
    return [_joined(parts[name], seen, passed) for name in rows if name in parts]


def _joined(
    rows: Sequence[BucketRow], seen: Mapping[int, dict[int, Counter[str]]], passed: Mapping[int, set[int]]
) -> JoinedBucket:
    if len(rows) == 1:
        return JoinedBucket(rows[0], seen.get(rows[0].id, {}), passed.get(rows[0].id, set()), rows[0].passed_night)
    counts: dict[int, Counter[str]] = {}
    for row in rows:
        for night, targets in seen.get(row.id, {}).items():
            counts.setdefault(night, Counter()).update(targets)
    common = set.intersection(*(passed.get(row.id, set()) for row in rows))
    return JoinedBucket(rows[0], counts, common, max(common, default=None))
