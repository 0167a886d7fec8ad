"""One store for many machines: PostgreSQL, real and on this machine, under the tables that SQLite has."""

from __future__ import annotations

import json
import shlex
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, inspect

from fuzz.campaign.nightly.opening import open_night
from fuzz.findings.database import open_store
from fuzz.findings.database_views import NightView, view
from fuzz.findings.tables import Base
from fuzz.tests.common.postgres import PASSWORD, Postgres, postgres
from fuzz.tests.common.running import KERNELFUZZ, Running, read_until, start, until
from fuzz.tests.conftest import run_cli
from fuzz.tests.cover.campaign.test_nightly import PACK


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture
def fresh(server: Postgres) -> Postgres:
    """The server, and nothing in it."""
    engine = create_engine(server.url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    engine.dispose()
    return server


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    engine = open_store(url)
    yield engine
    engine.dispose()


def _view(server: Postgres) -> NightView:
    with opened(server.url) as engine:
        return view(engine)


def _differences(engine: Engine) -> list[str]:
    """The columns that are not as they are declared."""
    with engine.connect() as connection:
        found = inspect(connection)
        return [
            f"{table.name}.{column.name}"
            for table in Base.metadata.sorted_tables
            for there in [{each["name"]: each for each in found.get_columns(table.name)}]
            for column in table.columns
            if there.keys() != {*table.columns.keys()}
            or there[column.name]["nullable"] != column.nullable
            or there[column.name]["type"].python_type != column.type.python_type
        ]


def test_postgresql_has_the_tables_that_are_declared(fresh: Postgres) -> None:
    for _ in range(2):  # opening it again changes nothing
        with opened(fresh.url) as engine:
            assert _differences(engine) == []


def _renamed(server: Postgres, version: str) -> None:
    with opened(server.url) as engine, engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")


@pytest.mark.parametrize(
    ("url", "change", "said"),
    [
        (lambda pg: pg.url_of("another"), None, "password authentication failed"),
        (lambda pg: "postgresql://fleet@127.0.0.1:1/postgres", None, "Connection refused"),
        (lambda pg: pg.url + "_which_is_not_there", None, "does not exist"),
        (lambda pg: pg.url, "99", "has tables of version 99, this kernelfuzz has version"),
        (lambda pg: pg.url, "1234abcd", "not a store of kernelfuzz"),
        (lambda pg: "mysql://somewhere/x", None, "neither PostgreSQL nor SQLite"),
        (lambda pg: "somewhere", None, "no URL"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_line_and_exit_code_4(
    fresh: Postgres, tmp_path: Path, url: Callable[[Postgres], str], change: str | None, said: str
) -> None:
    if change is not None:
        _renamed(fresh, change)
    store = url(fresh)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "pack.py").write_text(PACK)
    for words in (("nightly", "--state", "s"), ("run", "--max-cases", "1"), ("repro", "abcdef")):
        done = run_cli(tmp_path, *words, "--pack", "pack", "--store", store)
        assert (done.returncode, done.stdout) == (4, "")
        line = done.stderr.replace("\n    ", " ")
        assert said in line
        assert line.count("\n") == 1
        assert "of a test" not in done.stderr
        assert "of%20a%20test" not in done.stderr


def test_a_night_and_a_run_share_their_bugs_and_any_machine_can_look_at_them(fresh: Postgres, tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "pack.py").write_text(PACK)
    stored = ("--pack", "pack", "--store", fresh.url)
    night = run_cli(tmp_path, "nightly", "--state", "here", "--max-time", "30s", "--seed", "3", *stored)
    assert night.returncode == 1, night.stderr
    files = {path.name for path in (tmp_path / "here" / "findings").iterdir()}
    seen = _view(fresh)
    assert {bucket.row.case_file for bucket in seen.buckets} == files
    assert {bucket.row.kernel for bucket in seen.buckets} == {"loses-eps", "loses-tail"}
    assert not (tmp_path / "here" / "state.sqlite").exists()

    again = run_cli(tmp_path, "run", "--output", "there", "--max-cases", "300", "--seed", "5", "--no-shrink", *stored)
    assert again.returncode == 1, again.stderr
    assert "loses-eps" in again.stdout
    assert "loses-tail" in again.stdout, "what others had found is told, too"
    both = _view(fresh)
    assert {bucket.row.signature for bucket in both.buckets} == {bucket.row.signature for bucket in seen.buckets}
    assert {bucket.status for bucket in both.buckets} == {"still fails"}
    assert (both.cases, both.night.id) == (300, 2)
    assert fresh.query("SELECT verb, ended FROM night ORDER BY id") == [("nightly", "limit"), ("run", "limit")]

    # A busy machine had no time to shrink: the run may have found a smaller case than the night.
    found = both.buckets[0].row
    shown = run_cli(tmp_path, "repro", found.digest[:8], "--findings", "elsewhere", *stored)
    assert shown.returncode == 1
    assert found.kernel in shown.stdout
    page = run_cli(tmp_path, "report", fresh.url, "--output", "page", "--pack", "pack")
    assert page.returncode == 0, page.stderr
    assert {path.name for path in (tmp_path / "page" / "findings").iterdir()} == {
        bucket.row.case_file for bucket in both.buckets
    }
    assert "loses-eps" in (tmp_path / "page" / "report.html").read_text()


def test_what_a_store_has_explained_stays_so_where_a_later_run_has_no_time_for_it(tmp_path: Path) -> None:
    _pack(tmp_path)
    stored = ("run", "--pack", "pack", "--store", "sqlite:///bugs.sqlite", "--max-cases", "200", "--seed", "3")
    first = run_cli(tmp_path, *stored, "--target", "c-loses-tail@native:gcc-O2", "--explain-time", "10m")
    assert " when n mod 8 = 7" in first.stdout
    again = run_cli(tmp_path, *stored, "--target", "c-loses-tail@native:gcc-O2", "--explain-time", "3s")
    assert " when n mod 8 = 7" in again.stdout
    assert "\n1 bug in 1 kernel: " in again.stdout
    with closing(sqlite3.connect(tmp_path / "bugs.sqlite")) as connection:
        assert connection.execute("SELECT triaged = digest FROM bucket").fetchall() == [(1,)]


def _pack(folder: Path) -> None:
    (folder / "pack").mkdir()
    (folder / "pack" / "pack.py").write_text(PACK)


def _started(folder: Path, server: Postgres, *options: str) -> Running:
    return start(folder, "--store", server.url, "--max-time", "1h", "--seed", "3", *options)


def _judged(server: Postgres) -> int:
    [(count,)] = server.query("SELECT coalesce(sum(count), 0)::int FROM counter WHERE what = 'judged'")
    return int(str(count))


def test_a_store_that_is_away_for_a_while_loses_nothing_and_counts_nothing_twice(
    fresh: Postgres, tmp_path: Path
) -> None:
    _pack(tmp_path)
    with opened(fresh.url), _started(tmp_path, fresh) as run:
        until(lambda: _judged(fresh) > 100, run)
        fresh.kill()
        read_until("not saved: postgresql://fleet:***@", run.stderr)
        until(lambda: [*(tmp_path / "state" / "findings").glob("*.unsaved")] != [], run)
        [kept] = (tmp_path / "state" / "findings").glob("*.unsaved")
        assert json.loads(kept.read_text())["batches"], "what waits is on the disk of this machine"
        fresh.start()
        read_until("saved again: nothing was lost", run.stderr)
        assert not kept.exists()
        run.send_signal(signal.SIGTERM)
        _, progress = run.ended()
    assert run.returncode == 1, progress
    assert "Traceback" not in progress
    seen = _view(fresh)
    assert seen.judged == _judged(fresh) == sum(part.judged for part in seen.slices)
    assert sum(bucket.count for bucket in seen.buckets) == sum(target.findings for target in seen.targets)
    assert len({bucket.row.signature for bucket in seen.buckets}) == len(seen.buckets)


def test_a_store_that_stays_away_ends_with_exit_code_3_and_is_told_by_the_next_night(
    fresh: Postgres, tmp_path: Path
) -> None:
    _pack(tmp_path)
    limited = ("--store", fresh.url, "--max-time", "30s", "--seed", "3")
    with opened(fresh.url), start(tmp_path, *limited) as run:
        until(lambda: _judged(fresh) > 100, run)
        fresh.kill()
        read_until("not saved: ", run.stderr)
        until(lambda: [*(tmp_path / "state" / "findings").glob("*.unsaved")] != [], run)
        run.send_signal(signal.SIGTERM)
        _, progress = run.ended()
        assert (run.returncode, "Traceback" in progress) == (3, False), progress
        assert "what it was not told is kept in state/findings/night-1-session-1.unsaved" in progress
        [kept] = (tmp_path / "state" / "findings").glob("*.unsaved")
        told = [dict(each["counts"]) for each in _batches(kept)]
        fresh.start()
    before = _judged(fresh)
    waiting = sum(count for each in told for (what, *_), count in each.items() if what == "judged")
    assert waiting > 0
    words = shlex.split(progress.rpartition("once it can be reached: kernelfuzz ")[2])
    with Running([*KERNELFUZZ, *words], tmp_path, PGPASSWORD=PASSWORD) as run:
        done = run.ended()
    assert "saved now" in done[1], (words, done)
    assert run.returncode == 1
    assert "page: state/report.html" in done[0]
    assert fresh.query(
        "SELECT sum(judged)::int FROM batch JOIN slice ON slice.id = slice_id WHERE slice.number <= 1"
    ) >= [(before + waiting,)]
    assert not kept.exists()


def test_a_store_that_is_slow_at_the_end_is_waited_for(fresh: Postgres, tmp_path: Path) -> None:
    _pack(tmp_path)
    with opened(fresh.url), _started(tmp_path, fresh) as run:
        until(lambda: _judged(fresh) > 100, run)
        fresh.signal(signal.SIGSTOP)
        run.send_signal(signal.SIGTERM)
        time.sleep(7.0)  # all that may be cut off is over by then
        assert run.poll() is None
        fresh.signal(signal.SIGCONT)
        said, progress = run.ended()
    assert run.returncode == 1, progress
    assert "Traceback" not in progress
    assert said.endswith("page: state/report.html\n")


def _batches(path: Path) -> list[dict[str, list[tuple[tuple[str, ...], int]]]]:
    found = json.loads(path.read_text())["batches"]
    return [{"counts": [(tuple(key), count) for key, count in each["counts"]]} for each in found]


def test_what_comes_under_an_old_token_is_dropped(fresh: Postgres, tmp_path: Path) -> None:
    """A session that was taken for ended goes on, while another has resumed its night."""
    _pack(tmp_path)
    with opened(fresh.url) as engine, _started(tmp_path, fresh) as run:
        until(lambda: _judged(fresh) > 100, run)
        run.send_signal(signal.SIGSTOP)
        fresh.query("UPDATE session SET heard = heard - interval '5 minutes' RETURNING id")
        opened_elsewhere = open_night(engine, 9, 3600.0, "", {}, resume=True, place="elsewhere")
        assert opened_elsewhere.resumed
        taken = _judged(fresh)
        run.send_signal(signal.SIGCONT)
        _, progress = run.ended()
    assert "night 1 goes on elsewhere: what this process found since then is dropped" in progress
    assert (run.returncode, _judged(fresh)) == (3, taken)
