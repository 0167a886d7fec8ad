"""Kernels of ops with dimensions of any names: right ones pass, wrong ones are caught and explained by these names."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.quality.__main__ import app
from fuzz.tests.common.own_dims import C_KERNEL, write_dims_pack
from fuzz.tests.common.own_pack import ARGUMENTS, unknown_afterwards
from fuzz.tests.conftest import Cli


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with unknown_afterwards():
        yield


@pytest.mark.parametrize("op", ["matmul", "attend", "rope"])
@pytest.mark.parametrize("seed", [1, 2])
def test_right_kernels_pass(op: str, seed: int, tmp_path: Path, cli_here: Cli) -> None:
    write_dims_pack(tmp_path)
    done = cli_here("run", *ARGUMENTS, "--op", op, "--max-cases", "600", "--seed", str(seed))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("bug", "verdict", "rule"),
    [
        ("tail", "FAIL_NUMERIC", "fails (about )?when +(n >= 1 and )?k mod 4 != 0"),
        ("dense", "FAIL_(NUMERIC|NONFINITE|MEMORY)", "(layout|rows|step) of b"),
        ("confused", "FAIL_(MEMORY|NUMERIC|UNWRITTEN)|CRASH", "m (>=|!=|>) |n (>=|!=|>) |passes at (m|n) = "),
    ],
)
def test_a_bug_is_caught_shrunk_and_explained(bug: str, verdict: str, rule: str, tmp_path: Path, cli_here: Cli) -> None:
    write_dims_pack(tmp_path, bug)
    words = ("-v", "--target", "*O2", "--max-cases", "64", "--seed", "1", "--explain-time", "300s")
    done = cli_here("run", *ARGUMENTS, "--op", "matmul", "-k", bug, *words)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(f"({verdict})  {bug}", done.stdout), done.stdout
    assert re.search(f"fails .*({rule})|({rule})", done.stdout), done.stdout
    sizes = [int(size) for size in re.findall(r"\[(\d+(?:, \d+)*)\], f32", done.stdout)[0].split(", ")]
    assert max(sizes) <= 2, "no smaller case fails"
    found = sorted(str(path) for path in (tmp_path / "findings").glob("*.json"))
    again = cli_here("repro", found[0], *ARGUMENTS[:2], "--target", "*O2", "--script", "shown.c")
    assert again.returncode == 1
    subprocess.run(["gcc", "-std=gnu11", "shown.c", "-o", "shown", "-lm"], cwd=tmp_path, check=True)
    shown = subprocess.run([tmp_path / "shown"], capture_output=True, text=True, check=False)
    assert shown.returncode
    (tmp_path / "shown.c").unlink()  # the pack takes all that is C
    (tmp_path / "corpora").mkdir()
    kept = cli_here("corpus", "add", *found, "--pack", ".", "--corpora", "corpora")
    assert kept.returncode == 0, kept.stderr
    gate = ("gate", *ARGUMENTS, "--op", "matmul", "--corpora", "corpora", "--max-cases", "8", "--target", "*O2")
    assert cli_here(*gate, "--no-shrink").returncode == 1
    (tmp_path / f"{bug}.c").write_text(C_KERNEL)
    passed = cli_here(*gate)
    assert passed.returncode == 0, passed.stdout + passed.stderr


def test_rotary_embeddings_whose_halves_meet_in_the_wrong_sign_are_caught(tmp_path: Path, cli_here: Cli) -> None:
    text = (write_dims_pack(tmp_path) / "rope.py").read_text()
    (tmp_path / "rope.py").write_text(text.replace("second * cos + first * sin", "second * cos - first * sin"))
    words = ("--max-cases", "32", "--seed", "1", "-v", "--explain-time", "300s")
    done = cli_here("run", *ARGUMENTS, "--op", "rope", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "  index along half >= 1, in y" in done.stdout
    assert re.search(r"x +T\(\[1, 2, 1\], f32", done.stdout), "no smaller case fails, and no half goes"


def test_coarse_sums_that_are_declared_float32_are_caught(tmp_path: Path, cli_here: Cli) -> None:
    write_dims_pack(tmp_path, "coarse")
    done = cli_here("run", *ARGUMENTS, "-v", "--op", "matmul", "-k", "coarse", "--max-cases", "48", "--seed", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAIL_NUMERIC  coarse  numpy-coarse@cpu" in done.stdout
    assert "dot over k" in done.stdout


def test_correct_kernels_of_other_dimensions_pass_under_every_contract(tmp_path: Path, cli_here: Cli) -> None:
    write_dims_pack(tmp_path)
    runs = "--runs", "1000", "--nearest", "40"
    done = cli_here("calibrate", "--pack", ".", "--op", "[amr][oat][pt]*", *runs, "--seed", "5", app=app)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\n[0-9,]{5,} .* 0 false alarms, 0 undecided", done.stdout), done.stdout
