"""Nights on a disk that is full for a while, and without time for their page."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.tests.common.running import KERNELFUZZ, Running, ask, judged, read_until, until
from fuzz.tests.common.small_disk import SmallDisk
from fuzz.tests.conftest import edited
from fuzz.tests.cover.campaign.test_nightly import JUDGED, PACK, case_files
from fuzz.tests.cover.campaign.test_nightly_stopping import SUM, Planted, begin, page_of, stopped


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
        read_until("night 1, seed ", run.stdout)  # the end of the summary, after which the record is begun
        progress = stopped(run, signal.SIGTERM)
    assert "all is saved, and not all reports were written: kernelfuzz nightly --report-only" in progress
    assert ask(tmp_path, "SELECT ended FROM night") == [("signal",)]
    page = tmp_path / "state" / "report.html"
    assert not page.exists()
    assert "stopped by a signal" in page_of(tmp_path)


def _night(folder: Path, *options: str) -> Running:
    words = ["nightly", "--state", "state", "--pack", "my pack", "-j", "1", "--seed", "3", *options]
    return Running([*KERNELFUZZ, *words], folder, COLUMNS="300")


def _by_its_limit(folder: Path) -> str:
    with _night(folder, "--max-time", "6s") as run:
        return "".join(run.ended())


def _by_a_signal(folder: Path) -> str:
    with _night(folder, "--max-time", "20s") as run:
        until(lambda: judged(folder) > 100, run)
        run.send_signal(signal.SIGINT)
        return "".join(run.ended())


def _killed(folder: Path) -> str:
    """It prints nothing, and its user resumes it: that one keeps its limit."""
    with _night(folder, "--max-time", "8s") as run:
        until(lambda: judged(folder) > 100, run)
        run.kill()
        run.ended()
    with _night(folder, "--resume") as run:
        said = "".join(run.ended())
    assert re.search(r"night 1 goes on: seed 3, [0-8] s left", said), said
    return said


def _ended_before(folder: Path) -> str:
    _by_its_limit(folder)
    with _night(folder, "--resume") as run:
        return "".join(run.ended())


def _on_a_full_disk(folder: Path) -> str:
    with _night(folder, "--max-time", "20s") as run:
        until(lambda: judged(folder) > 100, run)
        resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (4096, 4096))
        told = read_until("not saved: ", run.stderr)
        run.send_signal(signal.SIGTERM)
        return told + "".join(run.ended())


def _without_its_page(folder: Path) -> str:
    os.mkfifo(folder / "record")
    with _night(folder, "--max-time", "20s", "--json", "record") as run:
        until(lambda: judged(folder) > 100, run)
        run.send_signal(signal.SIGTERM)
        until(lambda: ask(folder, "SELECT ended FROM night") == [("signal",)], run)
        told = read_until("night 1, seed ", run.stdout)
        run.send_signal(signal.SIGTERM)
        return told + "".join(run.ended())


@pytest.mark.parametrize(
    ("ending", "wanted"),
    [
        (_by_its_limit, {"repro", "show"}),
        (_by_a_signal, {"repro", "show"}),
        (_killed, {"repro", "show"}),
        (_ended_before, {"nightly"}),
        (_on_a_full_disk, {"nightly"}),  # of a case that found no room anywhere all is told, and no command
        (_without_its_page, {"repro", "show", "nightly"}),
    ],
)
def test_every_command_that_a_night_prints_works_as_printed(
    tmp_path: Path, ending: Callable[[Path], str], wanted: set[str]
) -> None:
    (tmp_path / "my pack").mkdir()
    (tmp_path / "my pack" / "pack.py").write_text(PACK)
    said = ending(tmp_path)
    commands = [shlex.split(each) for each in re.findall(r"kernelfuzz ((?:nightly|repro|show|report) .*)", said)]
    assert {words[0] for words in commands} >= wanted, said
    assert "page: " not in said or (tmp_path / "state" / "report.html").exists(), said
    for words in commands:
        with Running([*KERNELFUZZ, *words], tmp_path) as run:
            shown, progress = run.ended()
        assert run.returncode == (0 if words[0] == "show" else 1), f"{words}: {shown}{progress}"
