"""Kernels that read what nobody has set are found at once, and told as what they are."""

from __future__ import annotations

import re

import pytest

from fuzz.core.adapters.cuda import no_cuda_device
from fuzz.tests.conftest import CHECKOUT, Cli

_PACK = str(CHECKOUT / "fuzz" / "tests" / "common" / "packs" / "unset")
_READS = {
    "register": "a register that nobody set", "scalar": "a register that nobody set",
    "stack": "memory of the stack that nobody set", "group": "memory of the stack that nobody set",
    "heap": "memory from an allocator that nobody set",
}  # fmt: skip


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_each_is_found_in_20_cases_and_what_is_right_is_left_alone(cli_here: Cli, seed: str) -> None:
    done = cli_here("run", "--pack", _PACK, "--max-cases", "40", "--seed", seed, "--no-shrink")
    counted = re.findall(r"^(\w+) +2 of 2 +40 +(\d+) ", done.stdout, re.MULTILINE)
    assert {kernel for kernel, failing in counted if failing != "0"} == {*_READS, "scratch"}, done.stdout
    assert ("right", "0") in counted


@pytest.mark.parametrize("kernel", [*_READS])
def test_it_is_told_what_each_reads(cli_here: Cli, kernel: str) -> None:
    done = cli_here("run", "--pack", _PACK, "--target", f"c-{kernel}@*O2", "--max-cases", "20", "--seed", "1")
    assert f"FAIL  {kernel}  reads {_READS[kernel]}" in done.stdout, done.stdout


@pytest.mark.skipif(no_cuda_device() is not None, reason=str(no_cuda_device()))
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_what_is_unset_on_cuda_is_found_in_20_cases_and_told(cli_here: Cli, seed: str) -> None:
    done = cli_here("run", "--pack", f"{_PACK}_gpu", "--max-cases", "40", "--seed", seed)
    counted = re.findall(r"^(\w+) +1 of 1 +\d+ +(\d+) ", done.stdout, re.MULTILINE)
    assert {kernel for kernel, failing in counted if failing != "0"} == {"shared", "scratch"}, done.stdout
    # What was filled may be gone where processes take turns on the GPU: then it does not fail each time.
    ways = ("FAIL shared reads shared memory that nobody set", "memory that nobody set, and numbers")
    assert any(words in " ".join(done.stdout.split()) for words in ways), done.stdout
    assert "FAIL  scratch  reads memory from an allocator that nobody set" in done.stdout, done.stdout
