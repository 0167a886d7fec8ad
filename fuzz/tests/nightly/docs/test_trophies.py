"""Shipped libraries: every deviation that is kept is still there, and a search of its kernel finds it again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.core.transport.python.attest import installed_version
from fuzz.quality.impact import ENDS, Trophy, trophies
from fuzz.tests.common.trophies import PACKS, cased, fetched
from oracles.tests.common.whole import WHOLE

_CASES = "2000"
"""Each was found within 55 cases, from two seeds."""


def _needs_library(trophy: Trophy) -> None:
    """Skip the test where the library that a trophy is of is not there in its version, but at night."""
    name, number = trophy.library
    versions = fetched(trophy) / "versions"
    if versions.is_file() and f"{name} {number}" in versions.read_text(encoding="utf-8"):
        return
    found = (installed_version(name) or "not installed").partition("+")[0]
    if found != number:
        assert not WHOLE, f"{name} is {found}: the night installs .ci/thirdparty.txt, and fetches by .ci/fetch"
        pytest.skip(f"{name} is {found}, not {number}")


def _has_its_processor(trophy: Trophy) -> bool:
    """Whether this processor has the instructions that it needs, if it says so."""
    return "AVX-512" not in trophy.about["source"] or "avx512f" in Path("/proc/cpuinfo").read_text("utf-8")


@pytest.mark.parametrize("trophy", trophies(), ids=lambda each: each.folder.name)
def test_a_kept_deviation_is_still_shown_by_its_program(trophy: Trophy, tmp_path: Path) -> None:
    _needs_library(trophy)
    # What a report says of them: where the source is, and where a library is looked for.
    libraries = fetched(trophy) / "x86_64" / "usr" / "lib" / "x86_64-linux-gnu"
    found = {**os.environ, "GGML": str(fetched(trophy)), "LD_LIBRARY_PATH": str(libraries)}
    words = [sys.executable, "-W", "ignore", str(trophy.program)]
    shown = subprocess.run(words, cwd=tmp_path, env=found, capture_output=True, text=True, timeout=300)
    report = (trophy.folder / "report.md").read_text(encoding="utf-8")
    assert shown.stdout.strip(), shown.stderr
    assert "Traceback" not in shown.stderr
    if _has_its_processor(trophy):
        assert shown.stdout.strip() in report
        assert shown.returncode < 0 if ENDS in report else shown.returncode == 1


@pytest.mark.parametrize("trophy", cased(), ids=lambda each: each.folder.name)
def test_a_search_alone_finds_it_again(trophy: Trophy, tmp_path: Path) -> None:
    _needs_library(trophy)
    about = trophy.about
    words: list[str | Path] = [
        sys.executable, "-m", "fuzz", "run", "--pack", PACKS / about["pack"],
        "-k", about["kernel"], "--max-cases", _CASES, "--fail-fast", "--no-shrink", "--seed", "3", "-j", "1",
    ]  # fmt: skip
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert found.returncode == 1, found.stdout + found.stderr
    assert f"FAIL  {about['kernel']}" in found.stdout
