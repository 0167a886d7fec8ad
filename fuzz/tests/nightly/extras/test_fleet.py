"""One campaign on any number of machines: a real cluster of Dask and a real PostgreSQL, both on this one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fuzz.core.base import __version__
from fuzz.findings.casefile import load
from fuzz.findings.database import open_store
from fuzz.findings.database_views import view
from fuzz.tests.common.cluster import Cluster, children, cluster, end
from fuzz.tests.common.postgres import Postgres, postgres
from fuzz.tests.common.running import KERNELFUZZ, Running, ask, eventually, read_until, start, until
from fuzz.tests.common.told import told_in, when
from fuzz.tests.conftest import run_cli
from fuzz.tests.cover.campaign.test_nightly import PACK

THREE = (
    PACK
    + """
KERNELS += (replace(GENERIC, name="loses-first", edits=((
    "for (size_t i = 0; i < n; i++) total += x[i] * x[i];",
    "for (size_t i = n % 16 == 5; i < n; i++) total += x[i] * x[i];"),)),)
"""
)


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "pack.py").write_text(PACK)
    return tmp_path


@pytest.fixture
def two(pack: Path) -> Iterator[Cluster]:
    with cluster(pack) as made:
        yield made


def _runs(path: Path) -> list[object]:
    return [record for record in map(json.loads, path.read_text().splitlines()) if record["kind"] == "run"]


def test_a_cluster_judges_what_this_machine_judges_and_leaves_nothing_behind(two: Cluster) -> None:
    search = ("run", "--pack", "pack", "--max-cases", "480", "--seed", "9", "--no-shrink")
    here = run_cli(two.folder, *search, "--json", "here.jsonl")
    there = run_cli(two.folder, *search, "--json", "there.jsonl", "--engine", two.engine)
    assert (here.returncode, there.returncode) == (1, 1), there.stderr
    assert "2 workers of Dask" in there.stdout
    runs = _runs(two.folder / "there.jsonl")
    assert len(runs) == 480 * 6
    assert runs == _runs(two.folder / "here.jsonl")
    eventually(lambda: not two.shards())


def test_kills_of_a_shard_a_worker_and_the_store_lose_nothing_and_count_nothing_twice(pack: Path) -> None:
    (pack / "pack" / "pack.py").write_text(THREE)
    with postgres() as server, cluster(pack) as made:
        words = ("--store", server.url, "--engine", made.engine, "--max-time", "1h", "--seed", "3")
        with start(pack, *words) as run:
            until(lambda: _judged(server) > 300, run)
            os.kill(made.shards()[0], signal.SIGKILL)
            time.sleep(3.0)
            end(made.workers[0])
            time.sleep(3.0)
            server.kill()
            read_until("not saved: ", run.stderr)
            time.sleep(20.0)
            server.start()
            read_until("saved again: nothing was lost", run.stderr)
            made.add_worker()
            at_least = _judged(server) + 400
            until(lambda: _judged(server) > at_least, run)
            run.send_signal(signal.SIGTERM)
            _, progress = run.ended()
        assert run.returncode == 1, progress
        assert "Traceback" not in progress
        engine = open_store(server.url)
        seen = view(engine)
        engine.dispose()
    names = [bucket.row.kernel for bucket in seen.buckets if bucket.status == "new"]
    assert sorted(names) == ["loses-eps", "loses-first", "loses-tail"], "each bug has one bucket"
    assert seen.judged == sum(part.judged for part in seen.slices) == sum(minute.judged for minute in seen.pace)
    assert {target.judged for target in seen.targets} == {seen.judged // 8}, "no turn counts for some targets alone"
    assert sum(bucket.count for bucket in seen.buckets) == sum(target.findings for target in seen.targets)


def _judged(server: Postgres) -> int:
    """Runs that are saved; 0 before there is a table."""
    [(found,)] = server.query("SELECT to_regclass('public.counter') IS NOT NULL")
    if not found:
        return 0
    [(count,)] = server.query("SELECT coalesce(sum(count), 0)::int FROM counter WHERE what = 'judged'")
    return int(str(count))


def test_what_cannot_take_part_is_one_line_and_exit_code_4(pack: Path) -> None:
    def said(engine: str) -> str:
        done = run_cli(pack, "run", "--pack", "pack", "--max-cases", "1", "--engine", engine)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1), done.stderr
        return done.stderr

    assert "write local, or dask://HOST:PORT" in said("somewhere")
    assert "no scheduler of Dask answers there" in said("dask://127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert "it says nothing for 30 seconds" in said(f"dask://127.0.0.1:{silent.getsockname()[1]}")
    with cluster(pack, []) as made:
        assert "the scheduler has no workers" in said(made.engine)
        elsewhere = pack / "elsewhere"
        (elsewhere / "pack").mkdir(parents=True)
        (elsewhere / "pack" / "pack.py").write_text(PACK.replace("loses-eps", "loses-other"))
        made.folder = elsewhere
        other = made.add_worker()
        assert "the pack pack has other sources here" in said(made.engine)
        end(other)
        made.folder = pack
        made.add_worker(PYTHONPATH=str(_another_version(pack)))
        assert f"has kernelfuzz {__version__} (" in said(made.engine)


def test_a_worker_that_is_stopped_holds_up_no_end_and_a_scheduler_ends_it(two: Cluster) -> None:
    """As where the network of a machine is gone: nothing is closed, and nothing answers."""
    search = ("run", "--pack", "pack", "--seed", "9", "--no-shrink", "--engine", two.engine)

    @contextmanager
    def searching(most: str) -> Iterator[Running]:
        with Running([*KERNELFUZZ, *search, "--max-time", most, "--output", most], two.folder) as run:
            read_until(" fails: ", run.stderr)
            yield run

    with searching("5s") as run:
        for process in children(two.workers[0].pid):
            os.kill(process, signal.SIGSTOP)
        since = time.monotonic()
        run.ended()
        assert time.monotonic() - since < 60
        assert run.returncode == 1
        for process in children(two.workers[0].pid):
            os.kill(process, signal.SIGCONT)
    with searching("10m") as run:
        os.kill(two.scheduler.pid, signal.SIGSTOP)
        since = time.monotonic()
        _, progress = run.ended()
        assert time.monotonic() - since < 240
        assert run.returncode == 3
        assert " ".join(progress.split()).endswith("the scheduler is away: what was reported before is kept"), progress
        assert "Traceback" not in progress


def test_a_night_whose_scheduler_is_killed_reports_what_was_found_before(two: Cluster) -> None:
    with start(two.folder, "--max-time", "1h", "--seed", "3", "--engine", two.engine) as run:
        until(lambda: ask(two.folder, "SELECT count(*) FROM bucket") not in ([], [(0,)], [(1,)]), run)
        os.killpg(two.scheduler.pid, signal.SIGKILL)
        said, progress = run.ended()
    assert run.returncode == 3, progress
    assert "the scheduler is away: what was reported before is kept" in " ".join(progress.split())
    assert not any(words in progress for words in ("Traceback", "internal error", "distributed.client")), progress
    assert "FAIL  loses-eps" in said
    assert said.endswith("page: state/report.html\n")
    assert (two.folder / "state" / "report.html").exists()
    assert ask(two.folder, "SELECT ended FROM night") == [("",)], "it can be resumed"


_DISTRIBUTED = """
distributed:
  comm:
    require-encryption: true
    tls:
      ca-file: {0}/ca.pem
      scheduler: &node {{cert: {0}/node.pem, key: {0}/node.key}}
      worker: *node
      client: *node
"""


def test_a_cluster_and_a_store_are_reached_under_tls_as_the_page_says(
    pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = pack / "own"
    own.mkdir()
    _certify(own)
    (own / "distributed.yaml").write_text(_DISTRIBUTED.format(own))
    search = ("run", "--pack", "pack", "--max-cases", "40", "--seed", "9", "--no-shrink", "--engine")
    with postgres() as server, monkeypatch.context() as certified:
        server.kill()
        server.certify(own / "node.pem", own / "node.key")
        server.start()
        certified.setenv("DASK_CONFIG", str(own))
        with cluster(pack) as made:
            assert made.scheme == "tls"
            store = f"{server.url}?sslmode=verify-full&sslrootcert={own}/ca.pem"
            done = run_cli(pack, *search, made.engine, "--store", store, NO_COLOR="1")
            assert done.returncode == 1, done.stderr
            assert "workers of Dask" in done.stdout
            certified.delenv("DASK_CONFIG")
            refused = run_cli(pack, *search, made.engine, NO_COLOR="1")
            line = refused.stderr.replace("\n    ", " ")
            assert (refused.returncode, refused.stdout, line.count("\n")) == (4, "", 1), line
        plain = run_cli(pack, *search, "local", "--store", f"{server.url}?sslmode=disable")
        assert (plain.returncode, plain.stderr.replace("\n    ", " ").count("\n")) == (4, 1), plain.stderr


def _certify(folder: Path) -> None:
    """An authority, and a certificate of it for this machine."""
    words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    authority = ("-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    node = ("-subj", "/CN=node", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", "node.key", "-out", "node.pem")
    for more in (authority, (*node, *signed)):
        subprocess.run(("openssl", *words, *more), cwd=folder, check=True, capture_output=True)


def test_what_fails_on_another_kind_of_machine_is_explained_there(two: Cluster) -> None:
    """This machine has no compiler on its path, so that all kernels run on the workers alone."""
    bare = {"PATH": str(two.folder), "NO_COLOR": "1"}
    search = ("--pack", "pack", "--max-cases", "200", "--seed", "3", "--engine", two.engine)
    only = ("--target", "c-loses-tail@native:*")
    done = run_cli(two.folder, "run", *search, *only, "--explain-time", "3m", **bare)
    assert [when(each) for each in told_in(two.folder / "findings")] == ["n mod 8 = 7"], done.stdout + done.stderr
    assert "\n1 bug in 1 kernel: " in done.stdout
    [kept] = (two.folder / "findings").iterdir()
    case, found = load(kept)
    assert (case.elements, found is not None and found.target.startswith("c-loses-tail@native")) == (7, True)
    told = run_cli(two.folder, "run", *search, *only, "--no-shrink", "--output", "others", **bare)
    assert "seen on another machine, and not tried again here" in told.stdout


def _another_version(folder: Path) -> Path:
    """This checkout with one line more."""
    import shutil

    import fuzz
    import oracles

    for module in (fuzz, oracles):
        source = Path(str(module.__file__)).parent
        shutil.copytree(source, folder / "other" / source.name, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    with (folder / "other" / "fuzz" / "core" / "base" / "files.py").open("a") as more:
        more.write("\n# another version\n")
    return folder / "other"
