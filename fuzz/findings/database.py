"""A database of findings: how it is opened, and what depends on which database it is (the rest is in `damage`).

It is one SQLite file, kept for many nights. What PostgreSQL would need otherwise is all here: it has the same
`INSERT ... ON CONFLICT` under its own dialect; it has no PRAGMA, so the version of its tables would be a table of one
row; its commits are durable as they are; and it never had tables of an older version.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Insert, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.orm import Session
from sqlalchemy.schema import CreateIndex, CreateTable

from fuzz.base.files import set_aside
from fuzz.findings.damage import examine
from fuzz.findings.state import BrokenStateError, StateError
from fuzz.findings.tables import SCHEMA, Base

_INSERTS: Mapping[str, Callable[[Any], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def upsert(
    dialect: str, table: type[Base], added: Sequence[str] = (), replaced: Sequence[str] = (), **others: Any
) -> Insert:
    """A statement that inserts rows; where their key is there already, it adds to the columns `added`, replaces those
    of `replaced`, and gives `others` what their function makes of the new row. Without any, it leaves what is there."""
    statement = _INSERTS[dialect](table)
    new = statement.excluded
    changes = {name: getattr(table, name) + new[name] for name in added}
    changes |= {name: new[name] for name in replaced} | {name: change(new) for name, change in others.items()}
    key = list(table.__table__.primary_key.columns)  # type: ignore[attr-defined]
    if not changes:
        return statement.on_conflict_do_nothing(index_elements=key)  # type: ignore[no-any-return]
    return statement.on_conflict_do_update(index_elements=key, set_=changes)  # type: ignore[no-any-return]


def write_rows(
    transaction: Session, table: type[Base], rows: Sequence[Mapping[str, Any]], *added: str, **how: Any
) -> None:
    """`upsert` these rows."""
    if rows:
        dialect = transaction.get_bind().dialect.name
        transaction.execute(upsert(dialect, table, added, **how), list(rows))


def opened_state(path: Path) -> tuple[Engine, str]:
    """Open the database as `open_state` does, or, where what is there is damaged, a new one in its place; and a line
    that says where the damaged one went, or ''."""
    try:
        return open_state(path), ""
    except BrokenStateError as error:
        aside = [set_aside(each) for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm")))
                 if each.exists()]  # fmt: skip
        return open_state(path), f"{error}; it is kept as {aside[0].name}, and a new one begins"


def open_state(path: Path) -> Engine:
    """Open the database, making it where there is none. Raises StateError where it cannot be used, which is a
    BrokenStateError where its content is damaged."""
    if path.exists() and not path.is_file():
        raise BrokenStateError(f"{path}: not a state of kernelfuzz: it is no file")
    try:
        _bring_up_to_date(path)
        engine = create_engine(f"sqlite:///{path}")
        event.listen(engine, "connect", _prepare)
        with engine.begin() as connection:
            Base.metadata.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA}")
        examine(engine)
    except (OperationalError, sqlite3.OperationalError) as error:
        raise StateError(f"{path}: cannot be written: {getattr(error, 'orig', error)}") from error
    except (DatabaseError, sqlite3.DatabaseError) as error:
        said = getattr(error, "orig", error)
        raise BrokenStateError(f"{path}: not a state of kernelfuzz: {said}") from error
    except ValueError as error:
        raise BrokenStateError(f"{path}: damaged: {error}") from error
    return engine


def _prepare(connection: DBAPIConnection, record: object) -> None:
    """A write-ahead log that is synced at each commit: neither a kill nor a power cut loses what was committed."""
    cursor = connection.cursor()
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "busy_timeout = 2000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _bring_up_to_date(path: Path) -> None:
    """Rewrite the tables of an older version, in one transaction: what is there before is whole until it commits."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, 1, 2, SCHEMA):
            raise StateError(
                f"{path}: has tables of version {version}, this kernelfuzz has version {SCHEMA}: "
                "use the kernelfuzz that wrote it, or another --state folder"
            )
        if version in (1, 2):
            connection.execute("PRAGMA legacy_alter_table = ON")  # else other tables would refer to the old ones
            connection.execute("BEGIN IMMEDIATE")
            for statement in [*(_FROM_1 if version == 1 else ()), *_from_2(), f"PRAGMA user_version = {SCHEMA}"]:
                connection.execute(statement)
            connection.execute("COMMIT")


_FROM_1 = (
    "ALTER TABLE bucket ADD COLUMN need VARCHAR NOT NULL DEFAULT ''",
    "ALTER TABLE bucket ADD COLUMN core VARCHAR NOT NULL DEFAULT ''",
    "UPDATE bucket SET need = 'fails alone' WHERE triaged != ''",
)
_COPIED = {
    "night": "id, seed, started, limit_s, ended, version, command, environment",
    "session": "id, night_id, started, used_s, ended",
    "slice": "id, night_id, number, op, seed, seconds, done",
    "target": "night_id, name, kernel, op, runs, reason, attested",
    "bucket": 'id, signature, kernel, op, verdict, law, target, case_file, digest, size, "where", text, explanation, '
    "triaged, need, core, found_by, passed_night",
}
"""The columns that are in both versions, for each table that has other columns as well."""
_COUNTED = {
    **{name: f"SELECT night_id, '{name}', name, '', '', {name} FROM old_target WHERE {name} > 0"
       for name in ("judged", "findings", "gave_up", "not_run")},
    "compared": "SELECT night_id, 'compared', name, '', '', compared FROM law",
    "twin": "SELECT night_id, 'twin', target, law, '', compared FROM twin",
    "visit": "SELECT night_id, 'visit', op, kind, value, count FROM coverage WHERE count > 0",
    "space": "SELECT night_id, 'space', op, kind, value, 0 FROM coverage WHERE wanted",
}  # fmt: skip


def _from_2() -> list[str]:
    """Version 2 kept totals. Those of a slice become one batch, at the minute in which the slice began."""
    tables, dialect = Base.metadata.tables, sqlite.dialect()
    new = [*_COPIED, "batch", "counter"]
    made = [str(CreateTable(tables[name]).compile(dialect=dialect)) for name in new]
    indexed = [str(CreateIndex(index).compile(dialect=dialect)) for name in new for index in tables[name].indexes]
    before = (
        "SELECT coalesce(sum(seconds), 0.0) FROM old_slice AS earlier "
        "WHERE earlier.night_id = old_slice.night_id AND earlier.number < old_slice.number"
    )
    return [
        "DROP INDEX IF EXISTS ix_session_night_id",
        "DROP INDEX IF EXISTS ix_slice_night_id",
        *(f"ALTER TABLE {name} RENAME TO old_{name}" for name in _COPIED),
        *made,
        *indexed,
        *(
            f"INSERT INTO {name} ({columns}{', triage_s' * (name == 'session')}) "
            f"SELECT {columns}{', 0.0' * (name == 'session')} FROM old_{name}"
            for name, columns in _COPIED.items()
        ),
        "UPDATE session SET triage_s = (SELECT triage_s FROM old_night WHERE old_night.id = night_id) "
        "WHERE id IN (SELECT max(id) FROM session GROUP BY night_id)",
        "INSERT INTO batch (slice_id, minute, cases, judged) "
        f"SELECT id, CAST(({before}) / 60 AS INTEGER), cases, judged FROM old_slice WHERE cases > 0",
        *(f"INSERT INTO counter {counted}" for counted in _COUNTED.values()),
        *(f"DROP TABLE {name}" for name in ("law", "twin", "coverage", "pace")),
        *(f"DROP TABLE old_{name}" for name in reversed(_COPIED)),
    ]
