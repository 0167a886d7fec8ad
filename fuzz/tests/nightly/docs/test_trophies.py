"""Shipped libraries: every deviation that is kept is still there, and a search of its kernel finds it again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.core.transport.python.attest import installed_version
from fuzz.tests.common.trophies import PACKS, fetched, told, trophies
from oracles.tests.common.whole import WHOLE

_CASES = "2000"
"""Each was found within 55 cases, from two seeds."""


def _needs_library(trophy: Path) -> None:
    """Skip the test where the library that a trophy is of is not there in its version, but at night."""
    name, number = told(trophy)["source"].replace(",", "").split()[:2]
    versions = fetched(trophy) / "versions"
    if versions.is_file() and f"{name} {number}" in versions.read_text(encoding="utf-8"):
        return
    found = (installed_version(name) or "not installed").partition("+")[0]
    if found != number:
        assert not WHOLE, f"{name} is {found}: the night installs .ci/thirdparty.txt, and fetches by .ci/fetch"
        pytest.skip(f"{name} is {found}, not {number}")


@pytest.mark.parametrize("trophy", trophies(), ids=lambda each: each.name)
def test_a_kept_deviation_is_still_shown_by_its_repro(trophy: Path, tmp_path: Path) -> None:
    _needs_library(trophy)
    # What a report says of them: where the source is, and where a library is looked for.
    libraries = fetched(trophy) / "x86_64" / "usr" / "lib" / "x86_64-linux-gnu"
    found = {**os.environ, "GGML": str(fetched(trophy)), "LD_LIBRARY_PATH": str(libraries)}
    words = [sys.executable, "-W", "ignore", str(trophy / "repro.py")]
    shown = subprocess.run(words, cwd=tmp_path, env=found, capture_output=True, text=True, timeout=300)
    report = (trophy / "report.md").read_text(encoding="utf-8")
    assert shown.stdout.strip(), shown.stderr
    assert shown.stdout.strip() in report
    assert (shown.returncode != 0) == ("the process ends here" in report)


@pytest.mark.parametrize("trophy", trophies(), ids=lambda each: each.name)
def test_a_search_alone_finds_it_again(trophy: Path, tmp_path: Path) -> None:
    _needs_library(trophy)
    about = told(trophy)
    words: list[str | Path] = [
        sys.executable, "-m", "fuzz", "run", "--pack", PACKS / about["pack"],
        "-k", about["kernel"], "--max-cases", _CASES, "--fail-fast", "--no-shrink", "--seed", "3", "-j", "1",
    ]  # fmt: skip
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert found.returncode == 1, found.stdout + found.stderr
    assert f"FAIL  {about['kernel']}" in found.stdout


@pytest.mark.parametrize("trophy", trophies(), ids=lambda each: each.name)
def test_its_repro_is_ten_lines_that_need_only_the_library(trophy: Path) -> None:
    lines = (trophy / "repro.py").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line and not line.startswith(("import ", "from "))]) <= 10
    assert not [line for line in lines if "fuzz" in line]
