"""Nights and runs with kernels that cannot be started or never return."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

from fuzz.tests.common.running import Running, finish, until
from fuzz.tests.conftest import GENERIC, edited
from fuzz.tests.cover.campaign.test_containment import BAD, NATIVE, STUCK, Kernels, kernels

__all__ = ["kernels"]


def test_a_night_goes_on_without_it_and_outlasts_a_hang_and_its_page_says_so(kernels: Kernels, tmp_path: Path) -> None:
    kernels(good=GENERIC, bad=BAD, stuck=STUCK)
    code, said, progress = finish(
        tmp_path, *NATIVE, "--max-time", "6s", "--seed", "3", "--case-limit", "0.5s", "--resume"
    )
    assert code == 1, progress
    assert "CRASH  bad  c-bad@native:gcc-O2" in said
    assert "FAIL  stuck  hangs" in said
    assert re.search(r"broken: bad: [1-9]", said)
    assert re.search(r"^good +1 of 1 +[1-9]", said, re.MULTILINE), said
    assert "Traceback" not in progress
    page = (tmp_path / "state" / "report.html").read_text()
    assert ", 1 kernel broken</h1>" in page
    assert "undeclared" in page
    again = finish(tmp_path, "--report-only")
    assert (again[0], "CRASH  bad" in again[1]) == (1, True)


def test_a_signal_ends_a_run_although_a_kernel_hangs_and_what_was_found_is_reported(
    kernels: Kernels, tmp_path: Path
) -> None:
    """It is sent once the log names the case, which also shows that it does, and once."""
    wrong = edited("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n + 1, eps)")
    kernels(wrong=wrong, stuck=STUCK)
    words = ["run", "--pack", "pack", *NATIVE, "--case-limit", "1h", "--seed", "1", "-j", "1"]
    log = tmp_path / "log"
    with log.open("wb") as errors, Running([sys.executable, "-m", "fuzz", *words], tmp_path, errors.fileno()) as run:
        until(lambda: "waiting for c-stuck@native:gcc-O2: rms_norm f32 [" in log.read_text(), run)
        run.send_signal(signal.SIGTERM)
        said, _ = run.ended()
    assert run.returncode == 1, log.read_text()
    assert "FAIL  wrong  " in said
    assert re.search(r"NOT_RUN c-stuck@native:gcc-O2: (\d+ of \d+ runs: )?the run ended", said)
    assert log.read_text().count("waiting for") == 1
