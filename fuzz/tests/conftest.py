"""Shared by the engine's tests: the command line as a user runs it, and packs of planted kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.cli import app
from fuzz.cli.exits import leave

CHECKOUT = Path(__file__).resolve().parents[2]

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run `python3 -m fuzz` in an empty folder; keyword arguments become environment variables."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "fuzz", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture
def cli_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The same in this process: starting one takes longer than most commands. With `app` another command line."""

    def run(*arguments: str, app: Callable[..., object] = app) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["kernelfuzz", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            leave(app)
        shown = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, int(str(ended.value.code)), shown.out, shown.err)

    return run


GENERIC = (CHECKOUT / "kernels" / "c" / "generic.c").read_text()


def edited(old: str, new: str) -> str:
    """The source of the generic kernel with one edit; fails if the source no longer has the text."""
    assert GENERIC.count(old) == 1, f"generic.c has {old!r} {GENERIC.count(old)} times"
    return GENERIC.replace(old, new)


@pytest.fixture
def planted(tmp_path: Path) -> Callable[..., Path]:
    """A pack with one portable kernel called 'planted', made of the given C source."""

    def make(source: str, name: str = "planted") -> Path:
        folder = tmp_path / f"pack-{name}"
        folder.mkdir()
        (folder / f"{name}.c").write_text(source)
        for header in (CHECKOUT / "kernels" / "c").glob("*.h"):
            (folder / header.name).write_text(header.read_text())
        (folder / "pack.py").write_text(
            "from pathlib import Path\n"
            "from fuzz import Capabilities, CKernel\n"
            f"KERNELS = (CKernel({name!r}, 'rms_norm', Path(__file__).parent / '{name}.c',\n"
            "    capabilities=Capabilities(dtypes=('f32', 'f16'), strides='pitched', aliases=(('y', 'x'),))),)\n"
        )
        return folder

    return make
