"""An op with a label for each row, of a user's pack: from the search to the script that shows a bug."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.tests.common.integer_pack import write_integer_pack
from fuzz.tests.common.own_pack import ARGUMENTS, unknown_afterwards
from fuzz.tests.common.told import counts_of
from fuzz.tests.conftest import Cli


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with unknown_afterwards():
        yield


def test_right_kernels_pass_and_the_interface_says_what_the_integers_are(tmp_path: Path, cli_here: Cli) -> None:
    write_integer_pack(tmp_path)
    done = cli_here("run", *ARGUMENTS, "--max-cases", "120", "--seed", "3", "--target", "*O2", "--target", "*@cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert counts_of(done.stdout) == (203, 120)  # the kernel in C takes int64 alone
    assert "GAVE_UP" not in done.stdout
    assert "label[...] (int64 places along n)" in cli_here("list", "ops", *ARGUMENTS[:2]).stdout
    assert (
        "kf_tensor label; /* [...], int64 places along n */"
        in cli_here("header", "cross_entropy", *ARGUMENTS[:2]).stdout
    )


@pytest.mark.whole
def test_labels_that_are_read_wrongly_are_found_and_shown_outside_the_tool(tmp_path: Path, cli_here: Cli) -> None:
    write_integer_pack(tmp_path, "first", "last", "narrow")
    done = cli_here(
        "run", *ARGUMENTS, "--max-cases", "40", "--seed", "1", "--target", "c-*O2", "--no-shrink",
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    found = {path.name.split("-")[0] for path in (tmp_path / "findings").glob("*.json")}
    assert found == {"first", "last", "narrow"}
    case, *_ = (tmp_path / "findings").glob("first-*.json")
    cli_here("repro", str(case), *ARGUMENTS[:2], "--target", "c-first@native:gcc-O2", "--script", "shown.c")
    subprocess.run(["gcc", "-std=gnu11", "-o", "shown", "shown.c", "-lm"], cwd=tmp_path, check=True)
    assert "FAILED" in subprocess.run(["./shown"], cwd=tmp_path, check=False, capture_output=True, text=True).stdout
    cli_here("repro", str(case), *ARGUMENTS[:2], "--target", "torch-gathered@cpu", "--script", "shown.py")
    done = subprocess.run([sys.executable, "shown.py"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert "passed" in done.stdout, done.stdout + done.stderr
