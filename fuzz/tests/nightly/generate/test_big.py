"""What a run holds in memory while it judges the longest row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fuzz.tests.conftest import CHECKOUT

MEASURED = """
import threading
from pathlib import Path
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.generate.big import SERIES, big_case
from fuzz.core.laws.registry import Entry
from fuzz.core.adapters.pack import built_in, load
from fuzz.findings.book import book_in
from fuzz.campaign.search.runner import Runner
from fuzz.campaign.search.stopping import SessionLimits

peak, done = 0, threading.Event()

def resident(pid):
    # What processes share counts once.
    (line,) = [line for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if line.startswith("Pss:")]
    return int(line.split()[1])

def watch(pids):
    global peak
    while not done.wait(0.005):
        peak = max(peak, sum(resident(pid) for pid in ("self", *pids)))

kernels = [k for k in load(built_in()).kernels if k.op == "rms_norm"]
targets = [t for t in expand(kernels, this_host()) if t.id.endswith("@native:gcc-O2") and t.id.startswith("c-")]
targets = [t for t in targets if t.unavailable() is None]
with WorkerPool(targets, limit=60) as pool:
    watcher = threading.Thread(target=watch, args=[list(pool.pids.values())])
    watcher.start()
    runner = Runner(pool, targets, SessionLimits(), book_in(Path("findings"), 1))
    tally = runner.run_entries([[Entry(big_case(SERIES[-1], "rms_norm", False))]])
    done.set()
    watcher.join()
assert not tally.findings
print(tally.judged, peak)
"""


def test_the_longest_row_stays_below_two_gibibytes(tmp_path: Path) -> None:
    """All native kernels and their judgement as in a run: what all its processes hold, added up at each moment."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sys.executable, "-c", MEASURED], capture_output=True, text=True, cwd=tmp_path, env=environment, check=True
    )
    targets, peak = map(int, done.stdout.split())
    print(f"{targets} targets, {peak} KiB")
    assert targets >= 3
    assert peak < 2 << 20
