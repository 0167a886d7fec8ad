"""The tables of a database of findings. They hold facts and rows of counts; totals are queries in `database_views`.

Their types are those that SQLAlchemy has for every database, so that SQLite and PostgreSQL both hold them; all that
differs between the two is in `fuzz.findings.database`. A new version only adds tables, and columns with defaults; what
an older store lacks is added when it is opened.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Dialect, ForeignKey, Integer, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from fuzz.core.base.text import printable_lines

SCHEMA = 5
"""The version of the tables."""


class Words(TypeDecorator[str]):
    """Text that is made printable when it is read: somebody else may have written the state."""

    impl = String
    cache_ok = True

    @property
    def python_type(self) -> type[str]:
        return str

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return value.replace("\0", " ") if isinstance(value, str) else value  # PostgreSQL takes none

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return printable_lines(value) if isinstance(value, str) else value


class Base(DeclarativeBase):
    """All tables."""

    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy's name)
        dict[str, Any]: JSON,
        str: Words,
        int: BigInteger().with_variant(
            Integer(), "sqlite"
        ),  # a seed has 32 bits; SQLite numbers its INTEGER keys by itself
    }


class VersionRow(Base):
    """The version of the tables, in the table that Alembic used."""

    __tablename__ = "alembic_version"
    version_num: Mapped[str] = mapped_column(String(32), primary_key=True)


class NightRow(Base):
    """One night: one seed and one time limit, in one or more sessions."""

    __tablename__ = "night"
    id: Mapped[int] = mapped_column(primary_key=True)
    seed: Mapped[int]
    """The seeds of all slices are made from this one, which is fresh each night."""
    started: Mapped[datetime]
    """The time is in UTC, without a zone, since SQLite knows none."""
    limit_s: Mapped[float]
    ended: Mapped[str] = mapped_column(default="")
    """How it ended: 'limit'; 'errors', at its limit after internal errors; 'signal'; or 'next night' where another one
    was begun instead of resuming it. It is '' while the night can go on."""
    version: Mapped[str]
    verb: Mapped[str] = mapped_column(default="nightly", server_default="nightly")
    """'nightly', or 'run' for a run that a store remembers: that counts as a night which nobody resumes."""
    command: Mapped[str]
    environment: Mapped[dict[str, Any]]


class SessionRow(Base):
    """One process that worked on a night."""

    __tablename__ = "session"
    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), index=True)
    started: Mapped[datetime]
    used_s: Mapped[float] = mapped_column(default=0.0)
    """The seconds used, up to the last commit."""
    triage_s: Mapped[float] = mapped_column(default=0.0)
    """The part of these seconds that was spent on shrinking and explaining."""
    ended: Mapped[str] = mapped_column(default="")
    """How it ended: 'limit' or 'signal'. It is '' for the session that is running, and for one that was killed."""
    place: Mapped[str] = mapped_column(default="", server_default="")
    """A digest that names the state folder on its machine; its lock keeps others from working on it."""
    heard: Mapped[datetime | None] = mapped_column(default=None)
    """When it last saved something."""
    saved: Mapped[int] = mapped_column(default=0, server_default="0")
    """The number of its saved batches. Where the answer to a commit is lost, it tells whether the commit was done."""


class SliceRow(Base):
    """A part of a night: the replay of what is known, or the search of one op with one seed."""

    __tablename__ = "slice"
    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), index=True)
    number: Mapped[int]
    op: Mapped[str]
    """The op is '' for the replay."""
    seed: Mapped[int]
    seconds: Mapped[float] = mapped_column(default=0.0)
    done: Mapped[bool] = mapped_column(default=False)


class BatchRow(Base):
    """Cases that were saved together. A row is written once and never changed."""

    __tablename__ = "batch"
    id: Mapped[int] = mapped_column(primary_key=True)
    slice_id: Mapped[int] = mapped_column(ForeignKey("slice.id"), index=True)
    minute: Mapped[int]
    """The minute of the night's own time."""
    cases: Mapped[int]
    judged: Mapped[int]
    """The number of judged runs. A judged run is one case on one target."""


class CounterRow(Base):
    """How often something was counted in one night. One row for each batch would be millions of rows a night, so the
    counts are summed as they are written."""

    __tablename__ = "counter"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    what: Mapped[str] = mapped_column(primary_key=True)
    """What is counted: 'judged', 'findings', 'gave_up' and 'not_run' of a target; 'decided' and 'open' of a target, by
    an output and the dtype of the first input, both as in a part of the night; 'compared' by a law; 'twin' of a target,
    by a law; 'visit' of a label of an op's space; and 'space', always 0, for a label that should be visited."""
    subject: Mapped[str] = mapped_column(primary_key=True)
    """The target, the law or the op."""
    kind: Mapped[str] = mapped_column(primary_key=True, default="")
    """The law of a twin, an output, or the kind of a label."""
    value: Mapped[str] = mapped_column(primary_key=True, default="")
    """The value of a label."""
    count: Mapped[int]


class PairsRow(Base):
    """Which conditions held together in judged cases of one op in one night."""

    __tablename__ = "pairs"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    op: Mapped[str] = mapped_column(primary_key=True)
    together: Mapped[dict[str, Any]]
    """A record of `fuzz.core.generate.conditions.Together`."""


class TargetRow(Base):
    """One target of one night."""

    __tablename__ = "target"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    kernel: Mapped[str]
    op: Mapped[str]
    runs: Mapped[bool]
    reason: Mapped[str] = mapped_column(default="")
    """The reason why it did not run, or did not run every time."""
    attested: Mapped[dict[str, Any]]


class AccuracyRow(Base):
    """The worst err/budget of passing runs of one target, for row lengths of about n."""

    __tablename__ = "accuracy"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    target: Mapped[str] = mapped_column(primary_key=True)
    dtype: Mapped[str] = mapped_column(primary_key=True)
    bin: Mapped[int] = mapped_column(primary_key=True)
    """The row length as a quarter octave: 4 log2(n), rounded down."""
    worst_case: Mapped[bool] = mapped_column(primary_key=True)
    """Whether the runs were judged by the worst-case budget, because the values' rounding errors are not random."""
    n: Mapped[int]
    ratio: Mapped[float]
    climb: Mapped[float]
    """The worst-case budget divided by the sqrt(n) budget at this n."""
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
    """The name of the broken law, for FAIL_LAW."""
    target: Mapped[str]
    """The target on which the kept case fails."""
    case_file: Mapped[str] = mapped_column(default="")
    """The name of its case file in the folder of findings. That file is complete before a row names it."""
    digest: Mapped[str]
    size: Mapped[int]
    """The number of elements of all inputs of its case."""
    where: Mapped[str]
    explanation: Mapped[dict[str, Any]]
    """All that is known of the failure, by `fuzz.findings.codec`."""
    triaged: Mapped[str] = mapped_column(default="")
    """The digest of the case that was explained last."""
    need: Mapped[str] = mapped_column(default="")
    """What its failures need to show again, such as earlier calls. It is '' until that has been tried."""
    core: Mapped[str] = mapped_column(default="")
    """The rule that tells its failures from others of its kernel, as `rule_to_text` writes it. It is '' where there is
    no rule."""
    found_by: Mapped[str]
    """The command that searches the same cases again."""
    passed_night: Mapped[int | None] = mapped_column(ForeignKey("night.id"), default=None)
    """The latest night in which its case was replayed and passed."""


class SightingRow(Base):
    """How often one bucket was seen on one target in one night."""

    __tablename__ = "sighting"
    bucket_id: Mapped[int] = mapped_column(ForeignKey("bucket.id"), primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    target: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int]


class PassRow(Base):
    """One bucket whose kept case was replayed in one night, and passed."""

    __tablename__ = "pass"
    bucket_id: Mapped[int] = mapped_column(ForeignKey("bucket.id"), primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)


class KeptRow(Base):
    """The contents of a case file, for machines that do not have the file."""

    __tablename__ = "kept"
    name: Mapped[str] = mapped_column(primary_key=True)
    """The name that `BucketRow.case_file` has."""
    content: Mapped[str] = mapped_column(Text)


class LeaseRow(Base):
    """The right to report what one shard of a campaign found in one epoch, which is a slice of a night."""

    __tablename__ = "lease"
    night_id: Mapped[int] = mapped_column(ForeignKey("night.id"), primary_key=True)
    epoch: Mapped[int] = mapped_column(primary_key=True)
    shard: Mapped[int] = mapped_column(primary_key=True)
    token: Mapped[str]
    """Identifies the session. A session that resumes the night takes its shards under another token; reports under the
    old one are dropped."""
