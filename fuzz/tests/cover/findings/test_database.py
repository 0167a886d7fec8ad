"""The database of nights: batches are rows, and totals are sums of them."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, inspect
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

import fuzz.findings
from fuzz.campaign.nightly.opening import begin_slice, close, open_night
from fuzz.campaign.nightly.sharing import Slice
from fuzz.core.base.feature import Feature
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.conditions import Together
from fuzz.core.judge.judge import Judgement
from fuzz.explain.finding import Finding
from fuzz.explain.rule.rule import Atom, Rule
from fuzz.findings.bucket import Bucket, Source
from fuzz.findings.codec import rule_from_text, rule_to_text
from fuzz.findings.database import open_known, open_state, open_store, upsert
from fuzz.findings.database_store import DatabaseStore, restore
from fuzz.findings.database_views import view
from fuzz.findings.state import FencedError, StateError
from fuzz.findings.store import Position, Unsaved, read_unsaved, write_unsaved
from fuzz.findings.tables import SCHEMA, Base, CounterRow
from fuzz.findings.tally import Point, WorstRun
from fuzz.tests.common.examples import plain
from fuzz.tests.common.features import left

TARGET = "c-k@native:gcc-O2"


def _begun(path: Path) -> tuple[Engine, Position]:
    engine = open_state(path)
    position = open_night(engine, 1, 10.0, "", {}, resume=False).position
    begin_slice(engine, position, Slice(0, "rms_norm", 5, 1.0))
    return engine, position


def _bucket(n: int, folder: Path) -> Bucket:
    case = plain(n)
    finding = Finding(case, Judgement(TARGET, case.digest, Verdict.FAIL_NUMERIC, 2.0))
    return Bucket("k-values", "k", finding, (n, 0), TARGET, Source(5), folder / f"{n}.json", written=True)


def _batch(position: Position, count: int, n: int) -> Unsaved:
    return Unsaved(
        cases=Counter({(position.slice, 0): count}),
        judged=Counter({(position.slice, 0): count}),
        counts=Counter(
            {("compared", "rerun"): count, ("visit", "rms_norm", "n", "5"): count, ("judged", TARGET): count}
        ),
        accuracy={Point(TARGET, "f32", 8, False): WorstRun(4, 0.1 * n, 1.0, f"{n}", count)},
        sightings=Counter({("k-values", TARGET): count}),
    )


def test_batches_add_up_alike_in_memory_and_in_the_tables(tmp_path: Path) -> None:
    """Each is counted once, whether it was saved by itself or had to wait for the next one."""
    seen = []
    for name, together in (("one", True), ("many", False)):
        engine, position = _begun(tmp_path / f"{name}.sqlite")
        store = DatabaseStore(engine, tmp_path, position)
        waiting = Unsaved()
        for count, n in ((3, 5), (4, 2), (5, 9)):
            waiting.add(_batch(position, count, n))
            if n != 9:
                waiting.buckets["k-values"] = _bucket(n, tmp_path)
            if not together or n == 9:
                assert store.commit(waiting) == ""
                waiting = Unsaved()
        begin_slice(engine, position, Slice(1, "rms_norm", 6, 1.0))
        close(engine, position, "limit")
        resumed = open_night(engine, 1, 20.0, "", {}, resume=False).position
        assert resumed.night == 2, "another night, another session and a slice without batches change nothing"
        found = view(engine, 1)
        (bucket,), (worst,), (law,) = found.buckets, found.accuracy, found.laws
        seen.append((bucket.count, bucket.row.size, bucket.row.case_file, bucket.sightings, found.cases))
        assert (round(worst.ratio, 9), worst.where, worst.runs) == (0.9, "9", 12)
        assert law.compared == found.coverage[0].visits == found.pace[0].judged == 12
        assert [(part.cases, part.judged) for part in found.slices] == [(12, 12), (0, 0)]
        assert sum(minute.cases for minute in found.pace) == 12
        assert found.trends.nights[0].judged == 12
        assert (bucket.first_night, bucket.last_night, bucket.status) == (1, 1, "new")
    assert seen[0] == seen[1] == (12, 2, "2.json", {TARGET: 12}, 12)


def test_a_full_disk_leaves_the_tables_as_they_were_and_what_waits_is_saved_later(tmp_path: Path) -> None:
    """SQLite's own limit of pages stands for the disk: the same error, at the same places."""
    engine, position = _begun(tmp_path / "state.sqlite")
    store = DatabaseStore(engine, tmp_path, position)
    many = Unsaved(cases=Counter({(position.slice, 0): 1}))
    many.counts = Counter({("visit", "rms_norm", "n", str(n)): 1 for n in range(5000)})
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
    assert "full" in store.commit(many)
    assert view(engine).cases == 0
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1073741823")
    assert store.commit(Unsaved(cases=Counter({(position.slice, 0): 1}))) == ""
    assert view(engine).cases == 2
    assert len(view(engine).coverage) == 5000


def test_what_a_full_disk_has_no_room_for_is_counted_in_memory(tmp_path: Path) -> None:
    engine, position = _begun(tmp_path / "state.sqlite")
    store = DatabaseStore(engine, tmp_path, position)
    first = _batch(position, 3, 5)
    first.buckets["k-values"] = _bucket(5, tmp_path)
    assert store.commit(first) == ""
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    (tmp_path / "5.json").write_text("what the state still names")
    waiting = _batch(position, 4, 2)
    waiting.buckets["k-values"] = _bucket(2, tmp_path)
    waiting.released.append(tmp_path / "5.json")
    assert "readonly" in store.commit(waiting)
    seen = view(store.in_memory({"k-values": Path("/elsewhere/2.json")}), findings=tmp_path)
    assert (seen.cases, view(engine).cases) == (7, 3)
    [bucket] = seen.buckets
    assert (bucket.count, seen.findings / bucket.row.case_file) == (7, Path("/elsewhere/2.json"))
    assert (tmp_path / "5.json").exists()


def test_conditions_that_held_together_in_any_session_of_a_night_are_kept(tmp_path: Path) -> None:
    """What could not be saved waits for the next time, and another night begins with none."""
    path = tmp_path / "state.sqlite"
    engine, position = _begun(path)
    store = DatabaseStore(engine, tmp_path, position)
    assert store.commit(Unsaved(together={"rms_norm": Together({1: 3, 2: 3})})) == ""
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    assert "readonly" in store.commit(Unsaved(together={"rms_norm": Together({4: 5})}))
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = OFF")
    assert store.commit(Unsaved()) == ""
    close(engine, position, "signal")
    engine = open_state(path)
    resumed = open_night(engine, 1, 10.0, "", {}, resume=True).position
    begin_slice(engine, resumed, Slice(1, "rms_norm", 6, 1.0))
    assert DatabaseStore(engine, tmp_path, resumed).commit(Unsaved(together={"rms_norm": Together({1: 9})})) == ""
    assert {op: each.beside for op, each in view(engine).together.items()} == {"rms_norm": {1: 11, 2: 3, 4: 5}}
    close(engine, resumed, "limit")
    later = open_night(engine, 2, 10.0, "", {}, resume=False).position
    begin_slice(engine, later, Slice(0, "rms_norm", 6, 1.0))
    assert not view(engine).together


def test_machines_that_find_one_bug_share_its_bucket_and_the_smaller_case_stays(tmp_path: Path) -> None:
    engine, here = _begun(tmp_path / "state.sqlite")
    there = open_night(engine, 2, 10.0, "", {}, resume=False, place="there").position
    begin_slice(engine, there, Slice(0, "rms_norm", 6, 1.0))
    stores = [DatabaseStore(engine, tmp_path, position) for position in (here, there)]
    for n in (5, 7):
        (tmp_path / f"{n}.json").write_text(f"case of {n}")
    for store, position, n in zip(stores, (here, there), (5, 7), strict=True):
        batch = _batch(position, n, n)
        batch.buckets["k-values"] = _bucket(n, tmp_path)
        assert store.commit(batch) == ""
    [bucket] = view(engine).buckets
    assert (bucket.row.case_file, bucket.count) == ("5.json", 12)
    (tmp_path / "elsewhere").mkdir()
    restore(engine, tmp_path / "elsewhere")
    assert {path.name: path.read_text() for path in (tmp_path / "elsewhere").iterdir()} == {"5.json": "case of 5"}
    (tmp_path / "2.json").write_text("case of 2")
    assert stores[1].commit(Unsaved(buckets={"k-values": _bucket(2, tmp_path)})) == ""
    assert [each.row.case_file for each in view(engine).buckets] == ["2.json"]


def test_a_batch_whose_answer_was_lost_counts_once_and_one_of_an_old_token_never(tmp_path: Path) -> None:
    engine, position = _begun(tmp_path / "state.sqlite")
    path, batch = tmp_path / "night.unsaved", _batch(position, 3, 5)
    batch.rows["k-values"] = DatabaseStore(engine, tmp_path, position)._columns(_bucket(5, tmp_path))
    write_unsaved(path, position, [batch, _batch(position, 4, 2)])
    for _ in range(2):  # the second time as if nobody had told that the first one was saved
        again, batches = read_unsaved(path)
        assert batches[0] == batch
        assert DatabaseStore(engine, tmp_path, again).take_in(batches) == ""
        assert view(engine).judged == sum(part.judged for part in view(engine).slices) - 7 == 0
        assert view(engine).cases == 7
    later = open_night(engine, 1, 10.0, "", {}, resume=True).position
    assert later.night == position.night
    with pytest.raises(FencedError, match="night 1 goes on elsewhere"):
        DatabaseStore(engine, tmp_path, position).commit(_batch(position, 5, 5))
    with pytest.raises(FencedError):
        begin_slice(engine, position, Slice(0, "rms_norm", 5, 1.0))
    assert view(engine).cases == 7
    begin_slice(engine, later, Slice(0, "rms_norm", 5, 1.0))  # its own, as if that had not been answered
    assert DatabaseStore(engine, tmp_path, later).commit(_batch(later, 1, 1)) == ""
    assert view(engine).cases == 8


def test_a_session_goes_on_with_the_time_that_earlier_ones_have_left(tmp_path: Path) -> None:
    engine, position = _begun(tmp_path / "state.sqlite")
    position.began -= 4.0
    position.triage_s = 1.5
    DatabaseStore(engine, tmp_path, position).commit(Unsaved())
    resumed = open_night(engine, 9, 10.0, "", {}, resume=True)
    used = view(engine).night.used_s
    most = time.monotonic() - position.began  # however busy the machine is
    assert resumed.resumed
    assert 9.99 - most < resumed.left_s < 6.01
    assert (resumed.seed, resumed.position.earlier_triage_s) == (1, 1.5)
    assert 3.9 < used < most + 0.01


_NEW_TABLES = ("pass", "kept", "lease", "alembic_version")
_NEW_COLUMNS = {"session": ("place", "heard", "saved"), "night": ("verb",)}


def _age(engine: Engine) -> None:
    """Take away what version 5 brought."""
    with engine.begin() as connection:
        for name in _NEW_TABLES:
            connection.exec_driver_sql(f'DROP TABLE "{name}"')
        for table, columns in _NEW_COLUMNS.items():
            for column in columns:
                connection.exec_driver_sql(f'ALTER TABLE "{table}" DROP COLUMN {column}')
    engine.dispose()


def test_tables_that_are_brought_up_to_date_are_those_that_are_made(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    _age(open_state(path))
    with create_engine(f"sqlite:///{path}").begin() as connection:
        connection.exec_driver_sql("PRAGMA user_version = 4")
    told = [_columns(open_state(each)) for each in (path, tmp_path / "other.sqlite")]
    assert told[0] == told[1]
    assert told[0]["session"]["saved"] == ("INTEGER", False)
    with open_state(path).connect() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").all() == [(str(SCHEMA),)]


def _columns(engine: Engine) -> dict[str, dict[str, tuple[str, bool]]]:
    found = inspect(engine)
    columns = {name: found.get_columns(name) for name in found.get_table_names()}
    return {name: {c["name"]: (str(c["type"]), c["nullable"]) for c in each} for name, each in columns.items()}


def test_states_that_cannot_be_used_are_refused_in_one_line(tmp_path: Path) -> None:
    for version in (3, SCHEMA + 1):
        other = tmp_path / f"{version}.sqlite"
        engine = open_state(other)
        with engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = {version}")
        with pytest.raises(StateError, match=f"version {version}, this kernelfuzz has version {SCHEMA}"):
            open_state(other)
    (tmp_path / "junk.sqlite").write_text("this is no database, but long enough to look at\n" * 100)
    with pytest.raises(StateError, match="not a state of kernelfuzz"):
        open_state(tmp_path / "junk.sqlite")
    with pytest.raises(StateError, match="cannot be written"):
        open_state(Path("/proc/state.sqlite"))
    with pytest.raises(StateError, match="no night in it yet"):
        view(open_state(tmp_path / "new.sqlite"))


def test_no_password_of_a_store_that_is_refused_is_shown() -> None:
    """One with a sign that should be escaped may be read as a port, and an option of the URL may be one."""
    for url in (
        "postgresql://me:at@host:secret@host/x",
        "mysql://me:secret@host/x",
        "mysql://me@host/x?password=secret",
    ):
        with pytest.raises(StateError, match="write postgresql://USER@HOST/NAME") as refused:
            open_store(url)
        assert "secret" not in str(refused.value)


def test_the_tables_and_their_statements_are_those_of_postgresql_too() -> None:
    """Nothing knows which database it is but how it is opened, and what may be damaged in it."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    for table in Base.metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
    said = str(upsert("postgresql", CounterRow, ["count"]).compile(dialect=dialect))
    assert (
        "ON CONFLICT (night_id, what, subject, kind, value) DO UPDATE SET count = (counter.count + excluded.count)"
        in said
    )
    assert "DO NOTHING" in str(upsert("postgresql", CounterRow).compile(dialect=dialect))
    folder = Path(fuzz.findings.__file__).parent
    texts = {path.name: path.read_text() for path in folder.glob("*.py")}
    knowing = {name for name, text in texts.items() if any(word in text for word in ("dialects", "PRAGMA", "sqlite3"))}
    assert knowing == {"database.py"}


def test_a_rule_is_the_same_after_it_was_kept() -> None:
    rule = Rule((Atom(left("n", 64), "=", (63,), 1.2), Atom(Feature("dtype", "x"), "in", ("f16", "f32"), 2.0)))
    assert rule_from_text(rule_to_text(rule)) == rule
    assert rule_from_text(rule_to_text(None)) is None
    assert rule_from_text(rule_to_text(Rule())) == Rule()


def test_what_is_only_read_is_made_by_nobody(tmp_path: Path) -> None:
    missing = tmp_path / "missing.sqlite"
    with pytest.raises(StateError, match="there is no such file"):
        open_known(f"sqlite:///{missing}")
    assert not missing.exists()
    with pytest.raises(StateError, match="no URL"):
        open_known("postgresql://host:port/name")
