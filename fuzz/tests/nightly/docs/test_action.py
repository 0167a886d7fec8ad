"""The action, on the package as pip installs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import typer
import yaml

from fuzz.adapters.build import cache_directory
from fuzz.cli.exits import Exit
from fuzz.tests.common.validity import valid_sarif
from fuzz.tests.conftest import CHECKOUT, GENERIC, HANG_S
from fuzz.tests.cover.docs.test_workflows import Runner


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip would download, built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for package in ("fuzz", "oracles"):
        shutil.copytree(CHECKOUT / package, source / package, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(CHECKOUT / name, source)
    build = "import sys, setuptools.build_meta; setuptools.build_meta.build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    [built] = folder.glob("kernelfuzz-*.whl")
    return built


@pytest.fixture
def installing(tmp_path: Path) -> Runner:
    """A machine whose pip has no network, and a virtual environment that sees what we depend on but not kernelfuzz."""
    fake, beside, venv = tmp_path / "fake", tmp_path / "beside", tmp_path / ".kernelfuzz" / "venv"
    fake.mkdir()
    # It writes nothing, and reads what it is given, or else a pipe breaks.
    (fake / "sudo").write_text('#!/bin/sh\n[ "$1" != tee ] || cat > /dev/null\n')
    (fake / "sudo").chmod(0o755)
    beside.mkdir()
    for folder in dict.fromkeys(str(Path(module.__file__ or "").parents[1]) for module in (numpy, typer, yaml)):
        for path in Path(folder).iterdir():
            if "kernelfuzz" not in path.name and path.suffix != ".pth" and not (beside / path.name).exists():
                (beside / path.name).symlink_to(path)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=HANG_S)
    packages = sysconfig.get_path("purelib", "venv", {"base": str(venv), "platbase": str(venv)})
    (Path(packages) / "beside.pth").write_text(f"{beside}\n")
    return Runner(tmp_path, fake, {"PYTHONPATH": "", "KERNELFUZZ_CACHE": str(cache_directory())})


def test_the_action_installs_and_runs_in_a_repository_that_is_not_ours(
    installing: Runner, wheel: Path, planted: Callable[..., Path]
) -> None:
    """The real commands, on the package as pip installs it, in a folder without built-in kernels and corpora."""
    done = installing.run("Install", install=f"--no-deps --no-index {wheel}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no pack is here" in done.stdout
    installed = [*(installing.folder / ".kernelfuzz" / "venv" / "lib").glob("python*/site-packages/fuzz")]
    assert len(installed) == 1, "the package is not the installed one"
    pack = planted(GENERIC).rename(installing.folder / "mine")
    words = f"--pack {pack.name} --target c-planted@native:gcc-O2"
    done = installing.run("Gate", arguments=f"{words} --max-cases 32")
    assert done.returncode == 0, done.stdout + done.stderr
    results = installing.folder / "kernelfuzz-results"
    valid_sarif((results / "kernelfuzz.sarif").read_text())
    assert "no corpora are here" in (installing.folder / "STEP_SUMMARY").read_text()
    done = installing.run("Night", **{"max-time": "1s", "arguments": words})
    # A second may be too short for anything to be judged.
    assert done.returncode in (Exit.OK, Exit.NOTHING_RAN), done.stdout + done.stderr
    assert (results / "state" / "report.html").is_file()
    assert "## kernelfuzz nightly" in (installing.folder / "STEP_SUMMARY").read_text()
