"""The nightly state as a database: its tables, and how it is opened. One SQLite file, kept for many nights."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Connection, Engine, ForeignKey, create_engine, event, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from fuzz.findings.state import StateError

SCHEMA = 2
"""version of the tables; kept in the file as SQLite's user_version."""


class Base(DeclarativeBase):
    """All tables."""

    type_annotation_map = {dict[str, Any]: JSON}  # noqa: RUF012 (SQLAlchemy's name)


class Night(Base):
    """One night: one seed and one time limit, in one or more sessions."""

    __tablename__ = "night"
    id: Mapped[int] = mapped_column(primary_key=True)
    seed: Mapped[int]
    """of which the seeds of all slices are made; fresh each night."""
    started: Mapped[datetime]
    limit_s: Mapped[float]
    used_s: Mapped[float] = mapped_column(default=0.0)
    """seconds of all sessions, up to the last commit."""
    triage_s: Mapped[float] = mapped_column(default=0.0)
    """of these, seconds spent on shrinking and explaining."""
    ended: Mapped[str] = mapped_column(default="")
    """'limit', 'signal', 'next night' where another one was begun instead of resuming it; '' while it can go on."""
    version: Mapped[str]
    command: Mapped[str]
    environment: Mapped[dict[str, Any]]


class Session(Base):
    """One process that worked on a night."""

    __tablename__ = "session"
    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), index=True)
    started: Mapped[datetime]
    used_s: Mapped[float] = mapped_column(default=0.0)
    ended: Mapped[str] = mapped_column(default="")
    """'limit' or 'signal'; '' for the one that runs, and for one that was killed."""


class Slice(Base):
    """A part of a night: the replay of what is known, or the search of one op with one seed."""

    __tablename__ = "slice"
    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), index=True)
    number: Mapped[int]
    op: Mapped[str]
    """'' for the replay."""
    seed: Mapped[int]
    seconds: Mapped[float] = mapped_column(default=0.0)
    cases: Mapped[int] = mapped_column(default=0)
    judged: Mapped[int] = mapped_column(default=0)
    done: Mapped[bool] = mapped_column(default=False)


class TargetRow(Base):
    """What one target did in one night."""

    __tablename__ = "target"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    kernel: Mapped[str]
    op: Mapped[str]
    runs: Mapped[bool]
    reason: Mapped[str] = mapped_column(default="")
    """why it did not run, or not every time."""
    attested: Mapped[dict[str, Any]]
    judged: Mapped[int] = mapped_column(default=0)
    findings: Mapped[int] = mapped_column(default=0)
    gave_up: Mapped[int] = mapped_column(default=0)
    not_run: Mapped[int] = mapped_column(default=0)


class LawRow(Base):
    """How often outputs were compared by one law in one night."""

    __tablename__ = "law"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    compared: Mapped[int] = mapped_column(default=0)


class TwinRow(Base):
    """How often outputs of one target were compared by one law in one night."""

    __tablename__ = "twin"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    target: Mapped[str] = mapped_column(primary_key=True)
    law: Mapped[str] = mapped_column(primary_key=True)
    compared: Mapped[int] = mapped_column(default=0)


class CoverageRow(Base):
    """How often one label of an op's space was visited in one night."""

    __tablename__ = "coverage"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    op: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str] = mapped_column(primary_key=True)
    wanted: Mapped[bool] = mapped_column(default=False)
    """part of the space: a coverage gap where the count is 0."""
    count: Mapped[int] = mapped_column(default=0)


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


class PaceRow(Base):
    """Judged runs per minute of a night's own time."""

    __tablename__ = "pace"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    minute: Mapped[int] = mapped_column(primary_key=True)
    judged: Mapped[int] = mapped_column(default=0)
    cases: Mapped[int] = mapped_column(default=0)


class BucketRow(Base):
    """One bug: all findings with one signature, over all nights."""

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
    need: Mapped[str] = mapped_column(default="", server_default="")
    """what its failures need to show again, such as earlier calls; '' until it was examined."""
    core: Mapped[str] = mapped_column(default="", server_default="")
    """the rule that tells its failures from others of its kernel, as `fuzz.findings.rules` writes it; '' for none."""
    found_by: Mapped[str]
    """command that searches the same cases again."""
    first_night: Mapped[int] = mapped_column(ForeignKey("night.id"))
    last_night: Mapped[int] = mapped_column(ForeignKey("night.id"))
    """latest night in which it failed."""
    passed_night: Mapped[int | None] = mapped_column(ForeignKey("night.id"), default=None)
    """latest night in which its case was replayed and passed."""
    count: Mapped[int] = mapped_column(default=0)


class SightingRow(Base):
    """How often one bucket was seen on one target in one night."""

    __tablename__ = "sighting"
    bucket_id: Mapped[int] = mapped_column(ForeignKey("bucket.id"), primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    target: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int] = mapped_column(default=0)


def now() -> datetime:
    """The time as the tables keep it: UTC, without a zone, since SQLite knows none."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


def open_state(path: Path) -> Engine:
    """Open the database, making it where there is none. Raises StateError where it cannot be used."""
    engine = create_engine(f"sqlite:///{path}")
    event.listen(engine, "connect", _prepare)
    try:
        with engine.begin() as connection:
            found = connection.scalar(text("PRAGMA user_version"))
            if found not in (0, 1, SCHEMA):
                raise StateError(
                    f"{path}: has tables of version {found}, this kernelfuzz has version {SCHEMA}: "
                    "use the kernelfuzz that wrote it, or another --state folder"
                )
            if found == 1:
                _upgrade(connection)
            Base.metadata.create_all(connection)
            connection.execute(text(f"PRAGMA user_version = {SCHEMA}"))
    except OperationalError as error:
        raise StateError(f"{path}: cannot be written: {error.orig}") from error
    except DatabaseError as error:
        raise StateError(f"{path}: not a state of kernelfuzz: {error.orig}; move it away to begin a new one") from error
    return engine


def _upgrade(connection: Connection) -> None:
    """From the tables of version 1."""
    for column in ("need", "core"):
        connection.execute(text(f"ALTER TABLE bucket ADD COLUMN {column} VARCHAR NOT NULL DEFAULT ''"))
    connection.execute(text("UPDATE bucket SET need = 'fails alone' WHERE triaged != ''"))


def _prepare(connection: DBAPIConnection, record: object) -> None:
    """A write-ahead log that is synced at each commit: neither a kill nor a power cut loses what was committed."""
    cursor = connection.cursor()
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "busy_timeout = 2000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
