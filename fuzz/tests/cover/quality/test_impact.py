"""Since which version: what is tried, and what an outcome is taken for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.core.base.errors import UsageError
from fuzz.core.base.exits import Exit
from fuzz.quality import impact
from fuzz.quality.__main__ import app
from fuzz.quality.impact import DEVIATES, RIGHT, Trophy, last, outcome, since, table, trophies
from fuzz.tests.conftest import Cli


@pytest.mark.parametrize(
    ("listed", "count", "expected"),
    [
        ("2.1.1 2.1.0 2.0.3 2.0.2 1.9.0", 3, "2.1.1 2.0.3 1.9.0"),
        ("2.1.1 2.1.0 2.0.3 2.0.2 1.9.0", 2, "2.1.1 2.0.3"),
        ("0.3.36 0.3.35 0.3.34 0.2.90", 3, "0.3.36 0.3.35 0.3.34"),  # two minor versions only
        ("1.0.20261020 1.0.20260526", 5, "1.0.20261020 1.0.20260526"),
        ("2.13.0+cpu 2.13.0 2.12.1", 2, "2.13.0+cpu 2.12.1"),
        ("0.7.4 0.7.2.post1 0.6.18.post1", 2, "0.7.4 0.6.18.post1"),
    ],
)
def test_the_last_release_of_each_minor_version_is_tried(listed: str, count: int, expected: str) -> None:
    assert last(listed.split(), count) == expected.split()


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("print('got 1')", RIGHT),
        ("import sys; sys.exit(True)", DEVIATES),
        ("import sys; sys.exit(False)", RIGHT),
        ("import nowhere", "not run: ModuleNotFoundError: No module named 'nowhere'"),
        ("import os; print('the process ends here:', flush=True); os.abort()", DEVIATES),
        ("import os; os.abort()", "not run: exit code -6"),
        ("import sys; sys.exit(2)", "not run: exit code 2"),
        (
            "import subprocess; subprocess.run(['false', '/tmp/x'], check=True)",
            "not run: subprocess.CalledProcessError: Command returned non-zero exit status 1",
        ),
    ],
)
def test_only_an_exit_code_that_the_program_chose_is_an_outcome(program: str, expected: str, tmp_path: Path) -> None:
    """An exception has exit code 1 as well, and a release that cannot be imported is none that deviates."""
    path = tmp_path / "repro.py"
    path.write_text(program)
    assert outcome(path, sys.executable, tmp_path) == expected


def test_versions_are_sorted_by_what_they_showed() -> None:
    trophy = trophies()[0]
    versions = {"3.1": DEVIATES, "3.0": DEVIATES, "2.9": RIGHT, "2.8": "not installed: no wheel", "2.7": "not run: x"}
    versions |= {"2.6": "not run: x"}
    record = {trophy.folder.name: {"tried": "2026-11-30", "versions": versions}}
    not_tried = "2.8: not installed: no wheel; 2.7, 2.6: not run: x"
    assert table(record).rows == [(trophy.folder.name, trophy.library[0], "3.1, 3.0", "2.9", not_tried, "2026-11-30")]
    expected = f"Since: deviates in 3.1, 3.0; right in 2.9; could not be tried: {not_tried} (on 2026-11-30)."
    assert since(trophy, record) == expected
    assert since(trophy, {}) == f"Since: only {' '.join(trophy.library)} was tried."


def test_each_library_has_a_name_that_pip_knows_and_a_version() -> None:
    libraries = {each.library[0] for each in trophies()}
    assert {"torch", "keras", "llama-cpp-python", "flashinfer-python", "numpy"} <= libraries
    assert all(version[0].isdigit() for _, version in (each.library for each in trophies()))


def test_an_unknown_name_is_refused() -> None:
    command = [sys.executable, "-m", "fuzz.quality", "impact", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.USAGE, done.stderr
    assert done.stderr.count("\n") == 1
    assert "nowhere" in done.stderr
    assert Trophy(Path("nowhere")).program == Path("nowhere/repro.py")


def test_a_library_that_pip_does_not_find_is_refused_before_anything_is_run(
    cli_here: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the command after hours, and what was found was lost."""
    names = [next(each.folder.name for each in trophies() if each.library[0] == name) for name in ("numpy", "torch")]

    def releases(trophy: Trophy, count: int) -> list[str]:
        if trophy.library[0] == "torch":
            raise UsageError("torch: pip finds no release of it")
        return ["1.0"]

    monkeypatch.setattr(impact, "releases", releases)
    monkeypatch.setattr(impact, "tried", lambda group, version: pytest.fail("run before all is known"))
    done = cli_here("impact", *names, app=app)
    assert done.returncode == 4
    assert "pip finds no release" in done.stderr
