"""Nights on a disk that is full for a while, and without time for their page."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from fuzz.tests.common.running import ask, judged, read_until, until
from fuzz.tests.common.small_disk import SmallDisk
from fuzz.tests.conftest import edited
from fuzz.tests.cover.uses.test_nightly import JUDGED, PACK, case_files
from fuzz.tests.cover.uses.test_nightly_stopping import SUM, Planted, begin, page_of, stopped


def test_a_disk_that_is_full_for_a_while_loses_nothing(tmp_path: Path) -> None:
    """What waits in memory is saved as soon as there is room, and the night goes on all the while."""
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "pack.py").write_text(PACK)
    with SmallDisk(tmp_path) as disk, disk.start("--max-time", "1h", "--seed", "3") as run:
        until(lambda: disk.ask(JUDGED) not in ([], [[None]]), run)
        disk.fill(run)
        [[saved]] = disk.ask(JUDGED)
        read_until("not saved: ", run.stderr)
        disk.free(run)
        read_until("saved again: nothing was lost", run.stderr)
        run.send_signal(signal.SIGTERM)
        _, progress = run.ended()
        assert run.returncode == 1, progress
        with disk.start("--report-only", "--json", "night.json") as again:
            again.ended()
        record = json.loads((tmp_path / "night.json").read_text())
        assert disk.ask(JUDGED) == [[record["judged"]]]
        assert record["judged"] > saved
        assert disk.ask("PRAGMA integrity_check") == [["ok"]]
        assert disk.ask("SELECT sum(judged) FROM batch") == disk.ask(JUDGED)
        # There may be others: those of a batch that the signal cut off, for the next night to replay.
        assert {bucket["case_file"] for bucket in record["buckets"]} <= case_files(disk.folder)


def test_a_page_is_waited_for_until_a_further_signal_and_can_be_written_later(planted: Planted, tmp_path: Path) -> None:
    """The record goes into a pipe from which nobody reads; it comes before the page."""
    os.mkfifo(tmp_path / "record")
    with begin(planted(edited(SUM, SUM)), tmp_path, "--json", "record") as run:
        until(lambda: judged(tmp_path) > 0, run)
        run.send_signal(signal.SIGTERM)
        until(lambda: ask(tmp_path, "SELECT ended FROM night") == [("signal",)], run)
        time.sleep(2.0)  # the summary is printed, and the record begun
        progress = stopped(run, signal.SIGTERM)
    assert "all is saved, and not all reports were written: kernelfuzz nightly --report-only" in progress
    assert ask(tmp_path, "SELECT ended FROM night") == [("signal",)]
    page = tmp_path / "state" / "report.html"
    assert not page.exists()
    assert "stopped by a signal" in page_of(tmp_path)
