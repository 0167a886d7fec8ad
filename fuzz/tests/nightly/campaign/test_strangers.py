"""Mutated case files in numbers: through one process, and through the command line."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fuzz.cli.exits import Exit
from fuzz.tests.common.strangers import hostile_files, listing, real_files
from fuzz.tests.conftest import Cli
from fuzz.tests.cover.campaign.test_strangers import read_hostile_files

FILE = "corpus/case.json"
C, TORCH = ("--target", "c-generic@native:gcc-O2"), ("--target", "torch-eager@cpu", "--case-limit", "60s")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("repro", FILE, *C),
    ("repro", FILE, *C, "--script", "asked/repro.c"),
    ("repro", FILE, *C, "--json", "asked/record.json"),
    ("repro", FILE, *TORCH),
    ("repro", FILE, *TORCH, "--script", "asked/repro.py"),  # Triton's interpreter takes minutes for many rows
    ("explain-budget", FILE),
    ("corpus", "verify", "--corpora", "corpus"),
    ("corpus", "list", "--corpora", "corpus"),
    ("corpus", "add", FILE, "--corpora", "asked"),
    ("corpus", "merge", "corpus", "--corpora", "asked"),
)
"""All that reads a case file; whatever they write goes to the folder 'asked'."""


def test_a_hundred_thousand_files_through_load_replay_and_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = read_hostile_files(tmp_path, 100_000, seed=2026, every=100).seen
    print(dict(seen))
    assert seen["files"] == 100_000
    assert seen["loaded"] > 10_000


@pytest.mark.parametrize(("count", "processes"), [(950, False), (50, True)])
def test_a_thousand_files_through_the_command_line(
    tmp_path: Path, cli: Cli, cli_here: Cli, count: int, processes: bool
) -> None:
    (tmp_path / "corpus").mkdir()
    seen = Counter(_codes(tmp_path, cli if processes else cli_here, count, seed=count))
    print(dict(seen))
    assert seen.total() == count
    assert seen[Exit.USAGE] > count / 2
    assert seen[Exit.OK] > count / 20
    assert not seen[Exit.INTERNAL]


def _codes(folder: Path, run: Cli, count: int, seed: int) -> Iterator[Exit]:
    """The exit code of each command; nothing is written but where it was asked to."""
    for number, content in enumerate(hostile_files(count, seed, real_files())):
        (folder / FILE).write_bytes(content)
        (folder / "asked").mkdir()
        before = listing(folder)
        done = run(*_command(number))
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        code = Exit(done.returncode)
        if code is Exit.USAGE:
            assert len(done.stderr.replace("\n    ", " ").splitlines()) == 1, done.stderr
        shutil.rmtree(folder / "asked")
        (folder / "asked").mkdir()
        assert listing(folder) == before
        (folder / "asked").rmdir()
        yield code


def _command(number: int) -> Sequence[str]:
    return COMMANDS[number % len(COMMANDS)]
