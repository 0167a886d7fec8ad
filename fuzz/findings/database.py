"""A database of findings: how it is opened, and what depends on which database it is (the rest is in `damage`).

It is one SQLite file, kept for many nights. What PostgreSQL would need otherwise is all here: it has the same
`INSERT ... ON CONFLICT` under its own dialect; it has no PRAGMA, so the version of its tables would be a table of one
row; and its commits are durable as they are.
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
        _check_version(path)
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


def _check_version(path: Path) -> None:
    """Raise StateError for a state whose tables are of another version."""
    with closing(sqlite3.connect(path)) as connection:
        [version] = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, SCHEMA):  # 0: it has no tables yet
        raise StateError(
            f"{path}: has tables of version {version}, this kernelfuzz has version {SCHEMA}: "
            "use the kernelfuzz that wrote it, or another --state folder"
        )
