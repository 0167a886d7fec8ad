"""What is installed from a wheel or from its sources runs in an empty folder, without a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fuzz.tests.conftest import CHECKOUT, HANG_S

_Run = Callable[[Sequence[str], Path], str]


@pytest.fixture
def run(tmp_path: Path) -> _Run:
    """A command of Python, which sees nothing of this checkout; returns what it prints."""
    site = tmp_path / "site"

    def done(words: Sequence[str], folder: Path) -> str:
        found = subprocess.run(
            [sys.executable, *words], cwd=folder, env={**os.environ, "PYTHONPATH": str(site)}, text=True,
            capture_output=True, timeout=HANG_S, check=False,
        )  # fmt: skip
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout

    return done


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_is_built_is_installed_and_runs(kind: str, run: _Run, tmp_path: Path) -> None:
    source, built, empty = (tmp_path / name for name in ("source", "built", "empty"))
    for package in ("fuzz", "oracles"):
        shutil.copytree(CHECKOUT / package, source / package, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    (source / ".ci").mkdir()
    for name in ("pyproject.toml", ".ci/index.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source / name)
    empty.mkdir()
    run(["-c", f"import setuptools.build_meta as build; build.build_{kind}({str(built)!r})"], source)
    [file] = [path for path in built.iterdir() if path.is_file()]
    pip = "-m pip install --quiet --no-deps --no-index --no-build-isolation --target"
    run([*pip.split(), str(tmp_path / "site"), str(file)], empty)
    assert str(tmp_path / "site") in run(["-c", "import fuzz; print(fuzz.__file__)"], empty), "the checkout's was run"
    assert "FAIL  softmax  " in run(["-m", "fuzz", "demo", "--explain-time", "1s"], empty)
    assert "y = x rstd" in run(["-m", "fuzz", "list", "ops"], empty)
    assert (tmp_path / "site" / "fuzz" / "docs" / "index.md").is_file(), "the pages come along"
    assert [*empty.iterdir()] == [], "nothing is left behind"
