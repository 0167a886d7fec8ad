"""A database of findings: opening it, the differences between databases, and checking it for damage. A state folder has
an SQLite file. A store that several machines share is a PostgreSQL database, given by its URL.

SQLite keeps values of any type in any column, and notices a damaged page only when it reads the page. So a state is
read completely when it is opened, since an error in the middle of a night would end the night. PostgreSQL enforces
types, but its values may come from other machines. Judged runs are counted twice, by batch and by target: if the two
counts differ, something was lost.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Insert,
    Table,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    make_url,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateColumn

from fuzz.core.base.files import set_aside, write_whole
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.conditions import Together
from fuzz.explain.attribute.history import Need
from fuzz.findings.codec import decoded, rule_from_text
from fuzz.findings.state import DATABASE, BrokenStateError, StateError
from fuzz.findings.tables import SCHEMA, Base, BucketRow, NightRow, PairsRow, SessionRow, TargetRow, VersionRow
from oracles.ops import OPS

EXTRA = "pip install -e 'path/to/kernelfuzz[fleet]'"
"""The command that installs the packages for a shared store."""
_PATIENCE_S = 5
"""The seconds after which a server that does not answer counts as away: a night tries again, a command reports it. A
`connect_timeout` in the URL replaces this."""
_BUSY_MS = 2000
"""The milliseconds to wait while another process writes. Chosen."""
_OLDEST = 4
"""The oldest version of the tables that is read."""
_COUNT = "-saved"
"""The ending of the file beside a database that holds the number of its saved batches."""
_SAVED = "SELECT coalesce(sum(saved), 0) FROM session"
_OPENING = 5_392_171
"""The number of the lock under which tables are made, since two machines may open a new store at the same time."""
_INSERTS: Mapping[str, Callable[[Any], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def upsert(
    dialect: str, table: type[Base], added: Sequence[str] = (), replaced: Sequence[str] = (), **others: Any
) -> Insert:
    """Return a statement that inserts rows. For an existing key, the statement adds to the columns `added`, replaces
    the columns `replaced`, and sets each column in `others` to the result of its function for the new row. If all three
    are empty, the existing row stays."""
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
    """Insert these rows by `upsert`."""
    if rows:
        dialect = transaction.get_bind().dialect.name
        transaction.execute(upsert(dialect, table, added, **how), list(rows))


def name_of(engine: Engine) -> str:
    """Return the file of a database, or its URL in a form that may be shown."""
    return engine.url.database or "" if _is_file(engine.url) else _shown(engine.url.set(drivername="postgresql"))


def without_password(store: str) -> str:
    """Return the URL of a store for printed commands. The password must come from `PGPASSWORD` or `~/.pgpass` there."""
    url = make_url(store)
    if url.password is None and not any("password" in name for name in url.query):
        return store
    query = {name: value for name, value in url.query.items() if "password" not in name}
    bare = URL.create(url.drivername, url.username, None, url.host, url.port, url.database, query)
    return bare.render_as_string(hide_password=False)


def is_shared(engine: Engine) -> bool:
    """Whether other machines may use the database, so that it may be away while this machine works."""
    return not _is_file(engine.url)


def said_by(error: DBAPIError) -> str:
    """Return the first line of a database's error message."""
    return str(error.orig or error).strip().partition("\n")[0]


@contextmanager
def answering(engine: Engine) -> Iterator[None]:
    """Raise StateError for what a database refuses inside the block."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise StateError(f"{name_of(engine)}: {said_by(error)}") from error


def opened_store(state: Path, store: str | None) -> tuple[Engine, str]:
    """Return the store with this URL, opened by `open_store`; without a URL, the store of a state folder, opened by
    `opened_state`."""
    return opened_state(state / DATABASE) if store is None else (open_store(store), "")


def opened_state(path: Path) -> tuple[Engine, str]:
    """Return the database opened by `open_state`, or a new one if it is damaged; and a line about where the damaged one
    was moved, or ''."""
    try:
        if path.is_file() and not path.stat().st_size:  # SQLite would take it for a new database
            raise BrokenStateError(f"{path}: damaged: it is empty")
        return open_state(path), ""
    except BrokenStateError as error:
        files = [path.with_name(path.name + end) for end in ("", "-wal", "-shm", _COUNT)]
        aside = [set_aside(each) for each in files if each.exists()]
        return open_state(path), f"{error}; it is kept as {aside[0].name}, and a new one begins"


def open_store(store: str) -> Engine:
    """Return the database of a URL, after making missing tables. Raises StateError if it cannot be used."""
    try:
        url = make_url(store)
    except (ArgumentError, ValueError) as error:  # a port that is no number may be a password, so it is not shown
        raise StateError("--store: no URL: write postgresql://USER@HOST/NAME or sqlite:///FILE") from error
    if _is_file(url) and url.database:
        return open_state(Path(url.database))
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise StateError(
            f"--store {_shown(url)}: neither PostgreSQL nor SQLite: write postgresql://USER@HOST/NAME or sqlite:///FILE"
        )
    if find_spec("psycopg") is None:
        raise StateError(f"--store {_shown(url)}: psycopg is not installed: {EXTRA}")
    patience = {"connect_timeout": _PATIENCE_S, "tcp_user_timeout": 1000 * _PATIENCE_S}
    patience = {name: value for name, value in patience.items() if name not in url.query}
    engine = create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args=patience)
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_OPENING})")
            _make_tables(connection, f"--store {name_of(engine)}")
        examine(engine)
    except (DBAPIError, ValueError, StateError) as error:
        engine.dispose()
        if isinstance(error, StateError):
            raise
        kind = "cannot be opened" if isinstance(error, OperationalError) else "cannot be used"
        said = f"{kind}: {said_by(error)}" if isinstance(error, DBAPIError) else f"damaged: {error}"
        raise StateError(f"--store {name_of(engine)}: {said}") from error
    return engine


def open_known(store: str) -> Engine:
    """Return the database of a URL, opened for reading. A file beside which nothing can be written, as on a full disk,
    is copied to memory. Raises StateError, also if the file is missing."""
    path = Path()
    with suppress(ArgumentError, ValueError):  # opening it reports the reason
        url = make_url(store)
        path = Path(url.database or "") if _is_file(url) else path
        if path.name and not path.exists():
            raise StateError(f"{path}: there is no such file")
    try:
        return open_store(store)
    except StateError as error:
        if isinstance(error, BrokenStateError) or not path.is_file():
            raise
        with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=0)) as source:
            source.execute("PRAGMA locking_mode = EXCLUSIVE")  # else SQLite needs room for an index of its log
            engine = _copy_of(source)
            with engine.begin() as connection:
                _make_tables(connection, str(path))
                _require_all(connection, path)
            return engine
        raise


def open_state(path: Path) -> Engine:
    """Return the database in a file, which is made if it is missing. Raises StateError if it cannot be used, and
    BrokenStateError if its content is damaged."""
    if path.exists() and not path.is_file():
        raise BrokenStateError(f"{path}: not a state of kernelfuzz: it is no file")
    try:
        engine = create_engine(f"sqlite:///{path}")
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "checkin", _check_point)
        with engine.begin() as connection:
            _make_tables(connection, str(path))
            # Versions of kernelfuzz before the version table look here.
            connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA}")
            _require_all(connection, path)
        examine(engine)
    except (OperationalError, sqlite3.OperationalError) as error:
        raise StateError(f"{path}: cannot be written: {getattr(error, 'orig', error)}") from error
    except (DatabaseError, sqlite3.DatabaseError) as error:
        said = getattr(error, "orig", error)
        raise BrokenStateError(f"{path}: not a state of kernelfuzz: {said}") from error
    except ValueError as error:
        raise BrokenStateError(f"{path}: damaged: {error}") from error
    return engine


def _is_file(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _shown(url: URL) -> str:
    """Return the URL without its password, and without options, which may contain a password."""
    return url.set(query={}).render_as_string(hide_password=True)


def _prepare(connection: DBAPIConnection, record: object) -> None:
    """Set up a write-ahead log that is synced at each commit: no kill or power cut loses what was committed."""
    cursor = connection.cursor()
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", f"busy_timeout = {_BUSY_MS}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _check_point(connection: DBAPIConnection | None, record: object) -> None:
    """Move what was committed from the log into the file, since SQLite silently drops the rest of a damaged log. If
    another process reads, or the disk is full, it stays in the log until the next time."""
    if connection is None:
        return
    with closing(connection.cursor()) as cursor, suppress(sqlite3.Error):
        for pragma in ("busy_timeout = 0", "wal_checkpoint(TRUNCATE)", f"busy_timeout = {_BUSY_MS}"):
            cursor.execute(f"PRAGMA {pragma}")


def count_saved(engine: Engine) -> None:
    """Write the number of saved batches beside the database's file, so that a later loss is noticed."""
    if not is_shared(engine) and engine.url.database:
        with engine.connect() as connection, suppress(OSError, OperationalError):  # the next batch notes it
            count = connection.exec_driver_sql(_SAVED).scalar_one()
            write_whole(Path(engine.url.database + _COUNT), f"{count}\n")


def _require_all(connection: Connection, path: Path) -> None:
    """Raise BrokenStateError if a file has fewer batches than were saved, as after damage to its log."""
    count = path.with_name(path.name + _COUNT)
    with suppress(OSError, ValueError):  # older versions of kernelfuzz do not write it
        saved, there = int(count.read_text()), connection.exec_driver_sql(_SAVED).scalar_one()
        if there < saved:
            older = f"if it is an older copy, which is to be used: rm {shlex.quote(str(count))}"
            raise BrokenStateError(f"{path}: damaged: {saved:,} batches were saved, and {there:,} are there ({older})")


def in_memory(engine: Engine) -> Engine:
    """Return a copy of a database's file in memory, for data that does not fit on the disk."""
    with closing(engine.raw_connection()) as source:
        return _copy_of(source.driver_connection)


def _copy_of(source: Any) -> Engine:
    copy = create_engine("sqlite://", poolclass=StaticPool)
    with closing(copy.raw_connection()) as target:
        source.backup(target.driver_connection)
    return copy


def _make_tables(connection: Connection, name: str) -> None:
    """Make the tables, or add what older ones lack. Raises StateError for tables of an unknown version."""
    version = _version(connection, name)
    if version > SCHEMA or 0 < version < _OLDEST:
        whose = "newer" if version > SCHEMA else "older"
        raise StateError(
            f"{name}: has tables of version {version}, this kernelfuzz has version {SCHEMA}: "
            f"use the {whose} kernelfuzz that wrote it, or another store"
        )
    if version < SCHEMA:
        _add_missing(connection)
        connection.execute(delete(VersionRow))
        connection.execute(insert(VersionRow), {"version_num": str(SCHEMA)})


def _add_missing(connection: Connection) -> None:
    """Add missing tables and columns. A new version only adds to them, and each new column has a default."""
    found = inspect(connection)
    for table in Base.metadata.sorted_tables:
        there = {each["name"] for each in found.get_columns(table.name)} if found.has_table(table.name) else set[str]()
        for column in table.columns if there else ():
            if column.name not in there:
                ddl = CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f'ALTER TABLE "{table.name}" ADD COLUMN {ddl}')
    Base.metadata.create_all(connection)


def _version(connection: Connection, name: str) -> int:
    """Return the version of the tables; 0 if there are none."""
    tables = inspect(connection).get_table_names()
    if VersionRow.__tablename__ in tables:
        version = connection.scalar(select(VersionRow.version_num))
        if version is None:
            raise ValueError("nothing says which version its tables have")
        if not str(version).isdigit():
            raise StateError(f"{name}: not a store of kernelfuzz: its tables have version {version}")
        return int(str(version))
    if "night" not in tables:
        return 0
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())  # only SQLite has tables so old


_STORED: dict[type, tuple[str, ...]] = {
    int: ("integer",),
    bool: ("integer",),
    float: ("real", "integer"),
    str: ("text",),
    datetime: ("text",),
    object: ("text",),
}
"""The storage types in which SQLite keeps values of each Python type; a JSON column may have any of them."""
_MOST = 1e15
"""The largest number in a column of fractions, which hold seconds and ratios of passing runs."""
_LEAST = {"accuracy.n": 1, "accuracy.climb": 1, "accuracy.ratio": 0, "night.limit_s": 0, "session.used_s": 0}
"""The least value of these columns. All others are counts, and nothing is divided by them."""
_LOST = """
    SELECT night.id, coalesce(batches.judged, 0), coalesce(targets.judged, 0) FROM night
    LEFT JOIN (SELECT night_id, sum(judged) AS judged FROM batch JOIN slice ON slice.id = slice_id GROUP BY night_id)
    AS batches ON batches.night_id = night.id
    LEFT JOIN (SELECT night_id, sum(count) AS judged FROM counter WHERE what = 'judged' GROUP BY night_id)
    AS targets ON targets.night_id = night.id
    WHERE coalesce(batches.judged, 0) != coalesce(targets.judged, 0) LIMIT 1"""
"""Selects the first night whose two counts differ. A single statement sees one state, even while others write."""


def examine(engine: Engine) -> None:
    """Raise ValueError, with the place, or DatabaseError if the database is damaged."""
    if engine.dialect.name == "sqlite":
        _examine_file(engine)
    with Session(engine) as transaction:
        transaction.scalars(select(SessionRow)).all()  # loading rows parses times and JSON
        records: list[object] = [night.environment for night in transaction.scalars(select(NightRow))]
        records += [target.attested for target in transaction.scalars(select(TargetRow))]
        if not all(isinstance(record, dict) for record in records):
            raise ValueError("a record is no JSON object")
        for pairs in transaction.scalars(select(PairsRow)):
            if pairs.op in OPS:  # rows of unknown ops are not reported
                Together.of_record(pairs.op, pairs.together)
        for bucket in transaction.scalars(select(BucketRow)):
            _examine_bucket(bucket)


def _examine_file(engine: Engine) -> None:
    with engine.connect() as connection:
        said = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        if said != "ok":
            raise ValueError(str(said))
        if connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
            raise ValueError("a row refers to one that is not there")
        for table in Base.metadata.sorted_tables:
            _examine_table(connection, table)
        lost = connection.exec_driver_sql(_LOST).first()
        if lost is not None:
            raise ValueError("night {}: its batches have {} judged runs, and its targets {}".format(*lost))


def _examine_table(connection: Connection, table: Table) -> None:
    names = {each["name"] for each in inspect(connection).get_columns(table.name)}
    for column in table.columns:
        if column.name not in names:
            raise ValueError(f"the table {table.name} has no column {column.name}")
        query = f'SELECT 1 FROM "{table.name}" WHERE {_wrong(column)} LIMIT 1'
        if connection.exec_driver_sql(query).first() is not None:
            raise ValueError(f"{table.name}.{column.name} holds a value of another type, or too large a number")


def _wrong(column: Column[Any]) -> str:
    """Return the condition under which a value of the column is invalid."""
    kind, name = column.type.python_type, f'"{column.name}"'
    stored = [*_STORED[kind], *(["null"] if column.nullable else [])]
    wrong = f"typeof({name}) NOT IN ({', '.join(map(repr, stored))})"
    wrong += f" OR abs({name}) > {_MOST}" if kind is float else ""
    least = _LEAST.get(f"{column.table.name}.{column.name}")
    return wrong if least is None else f"{wrong} OR {name} < {least}"


def _examine_bucket(row: BucketRow) -> None:
    """Check a bucket. The name of its file must be in the folder of findings, since files are written and removed."""
    if row.case_file in (".", "..") or "/" in row.case_file or "\\" in row.case_file:
        raise ValueError("bucket.case_file names no file of the folder of findings")
    try:
        Verdict(row.verdict)
        Need(row.need or Need.NOTHING)
        rule_from_text(row.core)
        decoded(row.explanation)
    except (TypeError, RecursionError, ValueError) as error:
        raise ValueError(f"bucket {row.id}: {error}") from error
