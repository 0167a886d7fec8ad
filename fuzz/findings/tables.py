"""The tables of a database of findings. They hold facts and rows of counts; totals are queries in `database_views`.

SQLite and PostgreSQL can both hold them: the types are those that SQLAlchemy has for every database. What differs
between the two is in `fuzz.findings.database`, and nowhere else.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SCHEMA = 3
"""version of the tables. Versions 1 and 2, which kept totals, are read: see `fuzz.findings.database`."""


class Base(DeclarativeBase):
    """All tables."""

    type_annotation_map = {dict[str, Any]: JSON}  # noqa: RUF012 (SQLAlchemy's name)


class NightRow(Base):
    """One night: one seed and one time limit, in one or more sessions."""

    __tablename__ = "night"
    id: Mapped[int] = mapped_column(primary_key=True)
    seed: Mapped[int]
    """of which the seeds of all slices are made; fresh each night."""
    started: Mapped[datetime]
    """in UTC, without a zone: SQLite knows none."""
    limit_s: Mapped[float]
    ended: Mapped[str] = mapped_column(default="")
    """'limit', 'signal', 'next night' where another one was begun instead of resuming it; '' while it can go on."""
    version: Mapped[str]
    command: Mapped[str]
    environment: Mapped[dict[str, Any]]


class SessionRow(Base):
    """One process that worked on a night."""

    __tablename__ = "session"
    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), index=True)
    started: Mapped[datetime]
    used_s: Mapped[float] = mapped_column(default=0.0)
    """seconds, up to the last commit."""
    triage_s: Mapped[float] = mapped_column(default=0.0)
    """of these, seconds spent on shrinking and explaining."""
    ended: Mapped[str] = mapped_column(default="")
    """'limit' or 'signal'; '' for the one that runs, and for one that was killed."""


class SliceRow(Base):
    """A part of a night: the replay of what is known, or the search of one op with one seed."""

    __tablename__ = "slice"
    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), index=True)
    number: Mapped[int]
    op: Mapped[str]
    """'' for the replay."""
    seed: Mapped[int]
    seconds: Mapped[float] = mapped_column(default=0.0)
    done: Mapped[bool] = mapped_column(default=False)


class BatchRow(Base):
    """Cases that were saved together. A row is written once and never changed."""

    __tablename__ = "batch"
    id: Mapped[int] = mapped_column(primary_key=True)
    slice_id: Mapped[int] = mapped_column(ForeignKey("slice.id"), index=True)
    minute: Mapped[int]
    """of the night's own time."""
    cases: Mapped[int]
    judged: Mapped[int]
    """judged runs: one case on one target."""


class CounterRow(Base):
    """How often something of one night was counted. One row for each batch would be millions of rows a night, so the
    counts of a night's batches are summed as they are written."""

    __tablename__ = "counter"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    what: Mapped[str] = mapped_column(primary_key=True)
    """'judged', 'findings', 'gave_up' and 'not_run' of a target; 'compared' by a law; 'twin' of a target, by a law;
    'visit' of a label of an op's space, and 'space', always 0, where the label is one that should be visited."""
    subject: Mapped[str] = mapped_column(primary_key=True)
    """the target, the law or the op."""
    kind: Mapped[str] = mapped_column(primary_key=True, default="")
    """the law of a twin; the kind of a label."""
    value: Mapped[str] = mapped_column(primary_key=True, default="")
    """the value of a label."""
    count: Mapped[int]


class TargetRow(Base):
    """One target of one night."""

    __tablename__ = "target"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    kernel: Mapped[str]
    op: Mapped[str]
    runs: Mapped[bool]
    reason: Mapped[str] = mapped_column(default="")
    """why it did not run, or not every time."""
    attested: Mapped[dict[str, Any]]


class AccuracyRow(Base):
    """The worst err/budget of passing runs of one target, for row lengths of about n."""

    __tablename__ = "accuracy"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    target: Mapped[str] = mapped_column(primary_key=True)
    dtype: Mapped[str] = mapped_column(primary_key=True)
    bin: Mapped[int] = mapped_column(primary_key=True)
    """quarters of octaves: 4 log2(n), rounded down."""
    worst_case: Mapped[bool] = mapped_column(primary_key=True)
    """judged by the worst-case budget, because the values' rounding errors are not random."""
    n: Mapped[int]
    ratio: Mapped[float]
    climb: Mapped[float]
    """worst-case budget over sqrt(n) budget at this n."""
    where: Mapped[str]
    runs: Mapped[int]


class BucketRow(Base):
    """One bug: its smallest case and what is known of it, over all nights."""

    __tablename__ = "bucket"
    id: Mapped[int] = mapped_column(primary_key=True)
    signature: Mapped[str] = mapped_column(unique=True)
    kernel: Mapped[str]
    op: Mapped[str]
    verdict: Mapped[str]
    law: Mapped[str] = mapped_column(default="")
    """name of the broken law, for FAIL_LAW."""
    target: Mapped[str]
    """where the kept case fails."""
    case_file: Mapped[str] = mapped_column(default="")
    """its name in the folder of findings; that file is complete before a row names it."""
    digest: Mapped[str]
    size: Mapped[int]
    """elements of all its inputs."""
    where: Mapped[str]
    text: Mapped[str]
    """the failure as it is printed."""
    explanation: Mapped[str] = mapped_column(default="")
    """when it fails and when not, as triage states it."""
    triaged: Mapped[str] = mapped_column(default="")
    """digest of the case that triage has seen."""
    need: Mapped[str] = mapped_column(default="")
    """what its failures need to show again, such as earlier calls; '' until it was tried."""
    core: Mapped[str] = mapped_column(default="")
    """the rule that tells its failures from others of its kernel, as `rule_to_text` writes it; '' for none."""
    found_by: Mapped[str]
    """command that searches the same cases again."""
    passed_night: Mapped[int | None] = mapped_column(ForeignKey("night.id"), default=None)
    """latest night in which its case was replayed and passed."""


class SightingRow(Base):
    """How often one bucket was seen on one target in one night."""

    __tablename__ = "sighting"
    bucket_id: Mapped[int] = mapped_column(ForeignKey("bucket.id"), primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    target: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int]
