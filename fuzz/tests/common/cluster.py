"""A cluster of Dask on the loopback interface: a scheduler and workers, each a process as a user starts it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.tests.conftest import CHECKOUT


@dataclass
class Cluster:
    """It runs until its `with` block ends."""

    folder: Path
    engine: str
    scheduler: subprocess.Popen[bytes]
    scheme: str = "tcp"
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add_worker(self, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a worker in the folder, with its own nanny."""
        address = self.engine.replace("dask", self.scheme)
        words = (address, "--nthreads", "2", "--no-dashboard", "--memory-limit", "0", *options)
        worker = started(self.folder, "dask_worker", *words, **environment)
        self.workers.append(worker)
        return worker

    def shards(self) -> list[int]:
        """The processes that take turns, now."""
        nannies = [process for worker in self.workers for process in children(worker.pid)]
        return [
            each for process in nannies for each in children(process) if b"fuzz.extras.fleet.process" in words_of(each)
        ]


def children(parent: int) -> list[int]:
    told = subprocess.run(("ps", "-o", "pid=", "--ppid", str(parent)), capture_output=True, text=True, check=False)
    return [int(each) for each in told.stdout.split()]


def words_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def started(folder: Path, program: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
    """A program of Dask, in a group of processes of its own."""
    log = (folder / f"{program}-{time.monotonic_ns()}.log").open("wb")
    with log:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{program}", *words],
            cwd=folder, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1", **environment},
        )  # fmt: skip


def end(process: subprocess.Popen[bytes]) -> None:
    """End it and all that it started, at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def cluster(folder: Path, workers: Sequence[tuple[str, ...]] = ((), ())) -> Iterator[Cluster]:
    """A scheduler, and one worker for each of these lists of options."""
    scheduler = started(folder, "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    made = Cluster(folder, "", scheduler)
    try:
        made.scheme, address = _address(folder)
        made.engine = f"dask://{address}"
        for options in workers:
            made.add_worker(*options)
        yield made
    finally:
        for process in (*made.workers, scheduler):
            end(process)


def _address(folder: Path) -> tuple[str, str]:
    for _ in range(300):
        [log] = folder.glob("dask_scheduler-*.log")
        found = re.search(r"Scheduler at:\s+(tcp|tls)://(\S+)", log.read_text())
        if found is not None:
            return found[1], found[2]
        time.sleep(0.1)
    raise AssertionError("the scheduler says no address")
