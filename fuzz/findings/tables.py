"""The tables of a database of findings. They hold facts and rows of counts; totals are queries in `database_views`.

The types are those that SQLAlchemy offers for every database, so that SQLite and PostgreSQL have the same tables; all
differences between the two are in `fuzz.findings.database`. A new version only adds tables, and columns with defaults,
which are added to an older store when it is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Dialect, ForeignKey, Integer, String, Text, TypeDecorator, false, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from fuzz.core.base.text import printable_lines

SCHEMA = 7
"""The version of the tables."""


class Words(TypeDecorator[str]):
    """Text that is made printable when it is read, since anybody may have written the state."""

    impl = String
    cache_ok = True

    @property
    def python_type(self) -> type[str]:
        return str

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return value.replace("\0", " ") if isinstance(value, str) else value  # PostgreSQL accepts no NUL

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return printable_lines(value) if isinstance(value, str) else value


class Base(DeclarativeBase):
    """The base class of all tables."""

    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy's name)
        dict[str, Any]: JSON,
        str: Words,
        int: BigInteger().with_variant(Integer(), "sqlite"),  # for seeds; SQLite numbers its INTEGER keys by itself
    }


class VersionRow(Base):
    """The version of the tables, in a table named as Alembic names it."""

    __tablename__ = "alembic_version"
    version_num: Mapped[str] = mapped_column(String(32), primary_key=True)


class NightRow(Base):
    """A night: one seed and one time limit, in one or more sessions."""

    __tablename__ = "night"
    id: Mapped[int] = mapped_column(primary_key=True)
    seed: Mapped[int]
    """The seed from which the seeds of all slices are made; each night has a new one."""
    started: Mapped[datetime]
    """The time in UTC, without a zone, since SQLite has no zones."""
    limit_s: Mapped[float]
    ended: Mapped[str] = mapped_column(default="")
    """How the night ended: 'limit'; 'errors' for the limit after internal errors; 'signal'; or 'next night' if another
    night was begun instead of resuming it. '' while the night can be resumed."""
    version: Mapped[str]
    verb: Mapped[str] = mapped_column(default="nightly", server_default="nightly")
    """'nightly', or 'run' for a search that a store remembers, which is a night that cannot be resumed."""
    command: Mapped[str]
    environment: Mapped[dict[str, Any]]


class SessionRow(Base):
    """One process that worked on a night."""

    __tablename__ = "session"
    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), index=True)
    started: Mapped[datetime]
    used_s: Mapped[float] = mapped_column(default=0.0)
    """The seconds used up to the last commit."""
    triage_s: Mapped[float] = mapped_column(default=0.0)
    """The part of these seconds that went into shrinking and explaining."""
    ended: Mapped[str] = mapped_column(default="")
    """How the session ended: 'limit' or 'signal'; '' while it runs, or if it was killed."""
    place: Mapped[str] = mapped_column(default="", server_default="")
    """A digest of the state folder and its machine. The folder's lock keeps other processes from working on it."""
    heard: Mapped[datetime | None] = mapped_column(default=None)
    """The time when it last saved something."""
    saved: Mapped[int] = mapped_column(default=0, server_default="0")
    """The number of its saved batches. If the answer to a commit is lost, this tells whether the commit was done."""


class SliceRow(Base):
    """A part of a night: the run of what is known, or the search of one op with one seed."""

    __tablename__ = "slice"
    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), index=True)
    number: Mapped[int]
    op: Mapped[str]
    """The name of the op; '' for what is known."""
    seed: Mapped[int]
    seconds: Mapped[float] = mapped_column(default=0.0)
    done: Mapped[bool] = mapped_column(default=False)
    searched_s: Mapped[float] = mapped_column(default=0.0, server_default="0")
    """The seconds of search, without those of explaining, once the slice has ended."""
    new: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    """How many new things each target showed that ran to the end of the slice; '' for what belongs to no target."""


class BatchRow(Base):
    """Cases that were saved together. A row is written once and never changed."""

    __tablename__ = "batch"
    id: Mapped[int] = mapped_column(primary_key=True)
    slice_id: Mapped[int] = mapped_column(ForeignKey("slice.id"), index=True)
    minute: Mapped[int]
    """The minute of the night's working time."""
    cases: Mapped[int]
    judged: Mapped[int]
    """The number of judged runs. A judged run is one case on one target."""


class CounterRow(Base):
    """A counter of one night. Counts are added to existing rows; a row per batch would make millions a night."""

    __tablename__ = "counter"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    what: Mapped[str] = mapped_column(primary_key=True)
    """The name of the counter. 'judged', 'findings', 'gave_up' and 'not_run' count runs of a target. 'decided' and
    'open' count cases of a target by output and dtype of the first input. 'compared' counts comparisons by a law,
    'twin' a target's twins by law, 'visit' visits to a label of an op's space; 'space' is 0, for a label that should be
    visited."""
    subject: Mapped[str] = mapped_column(primary_key=True)
    """The name of the target, law or op."""
    kind: Mapped[str] = mapped_column(primary_key=True, default="")
    """The law of a twin, an output, or the kind of a label."""
    value: Mapped[str] = mapped_column(primary_key=True, default="")
    """The value of a label, or the dtype of the first input."""
    count: Mapped[int]


class PairsRow(Base):
    """The pairs of conditions that held together in judged cases of one op in one night."""

    __tablename__ = "pairs"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    op: Mapped[str] = mapped_column(primary_key=True)
    together: Mapped[dict[str, Any]]
    """A record of `fuzz.core.generate.conditions.Together`."""


class TargetRow(Base):
    """One target in one night."""

    __tablename__ = "target"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    kernel: Mapped[str]
    op: Mapped[str]
    runs: Mapped[bool]
    reason: Mapped[str] = mapped_column(default="")
    """The reason why it did not run at all, or not every time."""
    attested: Mapped[dict[str, Any]]


class AccuracyRow(Base):
    """The worst err/budget of passing runs of one target, for rows of about the same length."""

    __tablename__ = "accuracy"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    target: Mapped[str] = mapped_column(primary_key=True)
    dtype: Mapped[str] = mapped_column(primary_key=True)
    bin: Mapped[int] = mapped_column(primary_key=True)
    """The row length in quarter octaves: 4 log2(n), rounded down."""
    worst_case: Mapped[bool] = mapped_column(primary_key=True)
    """Whether the worst-case budget judged the runs, because the rounding errors of their values are not random."""
    n: Mapped[int]
    ratio: Mapped[float]
    climb: Mapped[float]
    """The worst-case budget divided by the sqrt(n) budget at this n."""
    where: Mapped[str]
    runs: Mapped[int]


class BucketRow(Base):
    """One bug in all nights: its smallest case, and what is known of it."""

    __tablename__ = "bucket"
    id: Mapped[int] = mapped_column(primary_key=True)
    signature: Mapped[str] = mapped_column(unique=True)
    kernel: Mapped[str]
    op: Mapped[str]
    verdict: Mapped[str]
    law: Mapped[str] = mapped_column(default="")
    """The name of the broken law, for FAIL_LAW."""
    target: Mapped[str]
    """The target on which the kept case fails."""
    case_file: Mapped[str] = mapped_column(default="")
    """The name of the case file in the folder of findings; the file is complete before a row names it."""
    digest: Mapped[str]
    size: Mapped[int]
    """The number of elements of all inputs of the case."""
    where: Mapped[str]
    explanation: Mapped[dict[str, Any]]
    """The explanation of the failure, encoded by `fuzz.findings.codec`."""
    triaged: Mapped[str] = mapped_column(default="")
    """The digest of the case that was explained last."""
    need: Mapped[str] = mapped_column(default="")
    """What the failure needs to show again, such as earlier calls; '' if that was not tried yet."""
    core: Mapped[str] = mapped_column(default="")
    """The rule by which its failures are told from others of the kernel, written by `rule_to_text`; '' if there is
    none."""
    found_by: Mapped[str]
    """The command that runs the same search again."""
    passed_night: Mapped[int | None] = mapped_column(ForeignKey("night.id"), default=None)
    """The latest night in which its case ran again and passed."""
    issue: Mapped[str] = mapped_column(default="", server_default="")
    """The address of its issue, if a night filed one."""
    issue_open: Mapped[bool] = mapped_column(default=False, server_default=false())


class SightingRow(Base):
    """The number of failing runs of one bucket on one target in one night."""

    __tablename__ = "sighting"
    bucket_id: Mapped[int] = mapped_column(ForeignKey("bucket.id"), primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    target: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int]


class PassRow(Base):
    """A bucket whose kept case ran again and passed in one night."""

    __tablename__ = "pass"
    bucket_id: Mapped[int] = mapped_column(ForeignKey("bucket.id"), primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)


class JoinRow(Base):
    """A bucket that somebody merged into another one. Both stay, so that failures are sorted as before, and what was
    merged can be split again; only the views count them as one."""

    __tablename__ = "joined"
    signature: Mapped[str] = mapped_column(primary_key=True)
    into: Mapped[str]


def home_of(name: str, into: Mapping[str, str]) -> str:
    """Return the bucket as which a bucket counts; `into` are the merged ones and those that they were merged into."""
    passed = set[str]()
    while name in into and name not in passed:  # rows of two machines might lead in a circle
        passed.add(name)
        name = into[name]
    return name


class KeptRow(Base):
    """The contents of a case file, for machines without the file."""

    __tablename__ = "kept"
    name: Mapped[str] = mapped_column(primary_key=True)
    """The name of the file, as in `BucketRow.case_file`."""
    content: Mapped[str] = mapped_column(Text)


class LeaseRow(Base):
    """The right to report the results of one shard in one epoch, which is a slice of a night."""

    __tablename__ = "lease"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    epoch: Mapped[int] = mapped_column(primary_key=True)
    shard: Mapped[int] = mapped_column(primary_key=True)
    token: Mapped[str]
    """Identifies the session. A session that resumes the night gives its shards another token, and reports under the
    old one are dropped."""


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
