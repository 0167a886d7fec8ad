"""What a cluster costs: judged runs a second on 1, 2, 4, ... workers of this machine, and the share that scheduling
takes. `python3 -m fuzz.quality.fleet [CASES] [WORKERS ...]` prints a Markdown table."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_CASES, _WORKERS = 4000, (1, 2, 4)
_SEARCH = ("run", "--op", "rms_norm", "--target", "c-*@native*", "--seed", "3", "--no-shrink")
_TICKS = os.sysconf("SC_CLK_TCK")
_WARM = 64
"""A first search of so many cases has everything imported and built."""
_QUIET = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "false",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "5s",
}
"""What leaves out of Dask what it watches of itself: with that a worker takes twice as much at rest."""
_IDLE_S = 5.0
_SETTLED_S = 1.0
"""After so many seconds a worker has noticed the end of what it started."""


@dataclass(frozen=True)
class Cost:
    """One search."""

    workers: int
    judged: int
    seconds: float
    coordinator: float
    """The CPU seconds of the process that counts and triages, and of the workers that it starts to replay."""
    dask: float
    """The CPU seconds of the scheduler and of Dask's workers, without what these started."""
    idle: float
    """Those that the same would have taken with nothing to do."""
    shards: float
    """The CPU seconds of the processes that take turns, with their kernels."""

    @property
    def share(self) -> float:
        """The part of all CPU seconds that Dask took for the search."""
        busy = max(0.0, self.dask - self.idle)
        return busy / (self.coordinator + busy + self.shards)


def own_and_started(process: int) -> tuple[float, float]:
    """The CPU seconds of a process, and those of what it started and has seen the end of."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own, started = (sum(map(int, fields[at : at + 2])) / _TICKS for at in (11, 13))
    return own, started


def measured(workers: int, cases: int) -> Cost:
    """One search on a cluster of so many workers; on none, with one process of this machine."""
    with tempfile.TemporaryDirectory() as name:
        folder, started = Path(name), list[subprocess.Popen[bytes]]()
        try:
            engine = "local"
            if workers:
                log = folder / "scheduler.log"
                started.append(_dask(log, "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"))
                address = _address(log)
                engine = f"dask://{address}"
                for number in range(workers):
                    words = (
                        f"tcp://{address}",
                        "--nthreads",
                        "2",
                        "--no-nanny",
                        "--no-dashboard",
                        "--memory-limit",
                        "0",
                    )
                    started.append(_dask(folder / f"worker{number}.log", "dask_worker", *words))
                _until_all_are_there(folder, workers)
            _cost(folder, engine, workers, _WARM, [each.pid for each in started])
            return _cost(folder, engine, workers, cases, [each.pid for each in started])
        finally:
            for each in started:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()


def _cost(folder: Path, engine: str, workers: int, cases: int, dask: list[int]) -> Cost:
    resting = _idle(dask)
    before, began = [own_and_started(each) for each in dask], time.monotonic()
    own = os.times()
    words = (*_SEARCH, "--max-cases", str(cases), "--engine", engine, "--output", str(folder / "findings"))
    more = ("--json", str(folder / "runs.jsonl"), *(() if workers else ("-j", "1")))
    done = subprocess.run([sys.executable, "-m", "fuzz", *words, *more], capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr.decode()
    seconds, after = time.monotonic() - began, os.times()
    time.sleep(_SETTLED_S)
    took = [(a - c, b - d) for each, (c, d) in zip(dask, before, strict=True) for a, b in [own_and_started(each)]]
    coordinator = after.children_user + after.children_system - own.children_user - own.children_system
    judged = (folder / "runs.jsonl").read_bytes().count(b'"kind":"run"')
    return Cost(
        workers, judged, seconds, coordinator, sum(a for a, _ in took), resting * seconds, sum(b for _, b in took)
    )


def _idle(dask: list[int]) -> float:
    """The CPU seconds that these processes take each second for nothing."""
    before = sum(own_and_started(each)[0] for each in dask)
    time.sleep(_IDLE_S)
    return (sum(own_and_started(each)[0] for each in dask) - before) / _IDLE_S


def _dask(log: Path, program: str, *words: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{program}", *words],
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, **_QUIET},
        )


def _address(log: Path) -> str:
    while True:
        found = re.search(r"Scheduler at:\s+tcp://(\S+)", log.read_text())
        if found is not None:
            return found[1]
        time.sleep(0.1)


def _until_all_are_there(folder: Path, workers: int) -> None:
    while sum("Registered to" in path.read_text() for path in folder.glob("worker*.log")) < workers:
        time.sleep(0.1)


def main() -> None:
    cases, *sizes = [int(each) for each in sys.argv[1:]] or [_CASES]
    print("| workers | judged runs | runs/s | CPU s: coordinator | Dask | of which at rest | shards | Dask's share |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for each in (measured(number, cases) for number in (0, *(sizes or _WORKERS))):
        rate = each.judged / each.seconds
        costs = f"{each.coordinator:.1f} | {each.dask:.1f} | {each.idle:.1f} | {each.shards:.1f}"
        print(
            f"| {each.workers or 'local, 1'} | {each.judged:,} | {rate:,.0f} | {costs} | {each.share:.1%} |", flush=True
        )


if __name__ == "__main__":
    main()
