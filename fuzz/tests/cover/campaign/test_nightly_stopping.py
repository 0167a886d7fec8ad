"""A nightly that is told to stop while something of it will never end: it is not waited for, and all is saved.

What is stuck here stays so for an hour: a nightly that waited for it would run into the limit of `Running.ended`.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.tests.common.planted import HANGS
from fuzz.tests.common.running import Running, ask, eventually, finish, judged, start, until
from fuzz.tests.conftest import edited

SUM = "float total = 0.0f;"
Planted = Callable[..., Path]


def _about(folder: Path) -> list[int]:
    """Processes that have the folder in their command line, other than the nightly."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words:
            found.append(int(each.parent.name))
    return found


def stopped(run: Running, *signals: int) -> str:
    for number in signals:
        run.send_signal(number)
    said, progress = run.ended()
    assert run.returncode == 2, said + progress
    assert "Traceback" not in progress
    return " ".join(progress.split())


def page_of(folder: Path) -> str:
    """On a busy machine a stop may leave no time for the page: it can be written later."""
    path = folder / "state" / "report.html"
    if not path.exists():
        finish(folder, "--report-only")
    return path.read_text()


def begin(pack: Path, tmp_path: Path, *options: str) -> Running:
    pack.rename(tmp_path / "pack")
    return start(tmp_path, "--seed", "3", "--case-limit", "1h", *options)


@pytest.mark.some(1)
@pytest.mark.parametrize("signals", [(signal.SIGTERM,), (signal.SIGINT, signal.SIGTERM)])
def test_a_kernel_that_never_returns_is_not_waited_for(
    planted: Planted, tmp_path: Path, signals: tuple[int, ...]
) -> None:
    """What came before it counts, and the page says at which case the kernel was."""
    stuck = tmp_path / "stuck"
    spin = (
        f"{SUM} static int calls; int mkdir(const char *, unsigned);"
        f'if (++calls > 1000 && !mkdir("{stuck}", 0700)) {HANGS}'
    )
    with begin(planted(edited(SUM, spin)), tmp_path) as run:
        until(lambda: stuck.exists() and judged(tmp_path) > 0, run)
        progress = stopped(run, *signals)
    # On a busy machine there may be no time to judge the rest of its batch: then it is dropped, and that is said.
    dropped = re.search(r"dropped: \d+ turns on their way ", progress)
    assert dropped or ask(tmp_path, "SELECT count(*) FROM counter WHERE what = 'not_run'") != [(0,)]
    assert ask(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    assert ask(tmp_path, "SELECT ended FROM night") == [("signal",)]
    assert "stopped by a signal" in page_of(tmp_path)


def test_a_compiler_that_never_ends_is_killed(planted: Planted, tmp_path: Path) -> None:
    """It reads a header from a pipe into which nobody writes."""
    pack = planted(edited(SUM, SUM) + '\n#include "never.h"\n')
    os.mkfifo(pack / "never.h")
    with begin(pack, tmp_path) as run:
        until(lambda: bool(_about(tmp_path / "pack")), run)
        stopped(run, signal.SIGTERM)
    # What is killed needs a processor to end; nobody else writes into the pipe.
    eventually(lambda: not _about(tmp_path / "pack"))
    assert ask(tmp_path, "SELECT ended FROM night") == [("signal",)]
    assert "<h1>Interrupted, nothing ran</h1>" in page_of(tmp_path)
