"""Damage of a database of findings: whether each table has its columns, and each column values of its type and range.

SQLite keeps any value in any column, and notices of a damaged page only what it has to read. So all of it is looked at
when a state is opened: what is found in the middle of a night would end it. PostgreSQL holds its columns to their types
itself; what they say may be another's there, too.

Judged runs are counted twice, by batch and by target: where the two differ, something is lost.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Engine, Table, inspect, select
from sqlalchemy.orm import Session

from fuzz.base.verdict import Verdict
from fuzz.findings.codec import decoded, rule_from_text
from fuzz.findings.tables import Base, BucketRow, NightRow, PairsRow, SessionRow, TargetRow
from fuzz.generate.conditions import Together
from fuzz.triage.attribute.history import Need
from oracles.ops import OPS

_STORED: dict[type, tuple[str, ...]] = {
    int: ("integer",),
    bool: ("integer",),
    float: ("real", "integer"),
    str: ("text",),
    datetime: ("text",),
    object: ("text",),
}
"""The types in which SQLite keeps values of each of ours; JSON is said to be of any type."""
_MOST = 1e15
"""No number of ours with a fraction is larger: seconds, and ratios that passed."""
_LEAST = {"accuracy.n": 1, "accuracy.climb": 1, "accuracy.ratio": 0, "night.limit_s": 0, "session.used_s": 0}
"""The least that the numbers of these columns can be; others count something, and nothing is divided by them."""
_LOST = """
    SELECT night.id, coalesce(batches.judged, 0), coalesce(targets.judged, 0) FROM night
    LEFT JOIN (SELECT night_id, sum(judged) AS judged FROM batch JOIN slice ON slice.id = slice_id GROUP BY night_id)
    AS batches ON batches.night_id = night.id
    LEFT JOIN (SELECT night_id, sum(count) AS judged FROM counter WHERE what = 'judged' GROUP BY night_id)
    AS targets ON targets.night_id = night.id
    WHERE coalesce(batches.judged, 0) != coalesce(targets.judged, 0) LIMIT 1"""
"""The first night whose counts differ. One statement sees one state, also while another process writes."""


def examine(engine: Engine) -> None:
    """Raise ValueError, which says where, or DatabaseError for a database that is damaged."""
    if engine.dialect.name == "sqlite":
        _examine_file(engine)
    with Session(engine) as transaction:
        transaction.scalars(select(SessionRow)).all()  # times are read when rows are loaded, and so is JSON
        records: list[object] = [night.environment for night in transaction.scalars(select(NightRow))]
        records += [target.attested for target in transaction.scalars(select(TargetRow))]
        if not all(isinstance(record, dict) for record in records):
            raise ValueError("a record is no JSON object")
        for pairs in transaction.scalars(select(PairsRow)):
            if pairs.op in OPS:  # of others nothing is said
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
    """The condition under which a value of the column is none of ours."""
    kind, name = column.type.python_type, f'"{column.name}"'
    stored = [*_STORED[kind], *(["null"] if column.nullable else [])]
    wrong = f"typeof({name}) NOT IN ({', '.join(map(repr, stored))})"
    wrong += f" OR abs({name}) > {_MOST}" if kind is float else ""
    least = _LEAST.get(f"{column.table.name}.{column.name}")
    return wrong if least is None else f"{wrong} OR {name} < {least}"


def _examine_bucket(row: BucketRow) -> None:
    """What names no file in the folder of findings would be written, and removed, elsewhere."""
    if row.case_file in (".", "..") or "/" in row.case_file or "\\" in row.case_file:
        raise ValueError("bucket.case_file names no file of the folder of findings")
    try:
        Verdict(row.verdict)
        Need(row.need or Need.NOTHING)
        rule_from_text(row.core)
        decoded(row.explanation)
    except (TypeError, RecursionError, ValueError) as error:
        raise ValueError(f"bucket {row.id}: {error}") from error
