"""Tensors of formats of 8 bits: right kernels pass, bugs are found, explained and shown outside the tool."""

from __future__ import annotations

import re
import subprocess
from itertools import count
from pathlib import Path

import pytest

from fuzz.core.adapters.pack import load
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.shrink.shrink import shrink
from fuzz.explain.stages.explain import explain
from fuzz.explain.trial.trial import Family, Trials
from fuzz.report.words import places_words
from fuzz.tests.common.byte_pack import write_byte_pack
from fuzz.tests.common.hunting import failures, target_of
from fuzz.tests.conftest import Cli

BATCHES = 30
"""A rule is found within so many batches of probes; the rest of an explanation takes ten times as long."""


@pytest.mark.whole
def test_right_kernels_pass_whether_they_saturate_or_overflow_to_nan(tmp_path: Path, cli_here: Cli) -> None:
    """In C, of NumPy and of torch. Of e4m3fn, which has no infinity, what overflows is NaN."""
    write_byte_pack(tmp_path)
    done = cli_here("run", "--pack", ".", "--max-cases", "120", "--seed", "1", "--target", "*O2", "--target", "*@cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GAVE_UP" not in done.stdout
    kernels = ("right ", "right-saturating ", "arrays ", "tensors ")
    rows = {name: line for line in done.stdout.splitlines() for name in kernels if line.startswith(name)}
    assert {*rows} == {*kernels}
    assert not [line for line in rows.values() if "1.000" in line], "what saturates is where it must be"


@pytest.mark.whole
def test_wrong_ranges_are_found_and_shown_outside_the_tool(tmp_path: Path, cli_here: Cli) -> None:
    write_byte_pack(tmp_path, "mistaken", "clamped")
    done = cli_here(
        "run", "--pack", ".", "--max-cases", "120", "--seed", "1", "--target", "c-*O2", "--no-shrink"
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert {path.name.split("-")[0] for path in (tmp_path / "findings").glob("*.json")} == {"mistaken", "clamped"}
    case = next((tmp_path / "findings").glob("clamped-*.json"))
    shown = cli_here("repro", str(case), "--pack", ".", "--target", "c-clamped@native:gcc-O2", "--script", "shown.c")
    assert "expected      nan (0x7f)" in shown.stdout
    subprocess.run(["gcc", "-std=gnu11", "-o", "shown", "shown.c", "-lm"], cwd=tmp_path, check=True)
    ran = subprocess.run(["./shown"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stdout
    assert re.search(r"^FAILS: y\[\d+\] = \S+, allowed NaN$", ran.stdout, re.MULTILINE), ran.stdout


@pytest.mark.whole
def test_a_bug_in_one_of_the_formats_is_explained_by_its_name(tmp_path: Path) -> None:
    target, left = target_of(load(write_byte_pack(tmp_path, "tail")).kernel("tail"), "O2"), count(BATCHES, -1)
    with WorkerPool([target]) as pool:
        ((case, judgement),) = failures(pool, target, 1)
        trials = Trials(pool, target, Family.of(judgement))
        smallest = shrink(trials, case)
        assert smallest.inputs["x"].layout.size <= 4
        found = explain(Trials(pool, target, trials.family, out_of_time=lambda: next(left) <= 0), smallest)
    assert found.learned is not None
    # How many more probes would show that nothing else matters depends on what they cost.
    assert "dtype of x = e4m3fn and n mod 4 != 0" in str(found.learned.rule)
    assert found.places is not None
    assert places_words(found.places).startswith("tail of 4 = inside, in y")
