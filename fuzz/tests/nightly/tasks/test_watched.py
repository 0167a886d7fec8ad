"""What tools of compute-sanitizer see on a GPU is a finding of theirs, with the line, beside the plain search."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from fuzz.core.adapters.cuda import no_cuda_device
from fuzz.tests.conftest import CHECKOUT, Cli

_PACK = str(CHECKOUT / "fuzz" / "tests" / "common" / "packs" / "watched_gpu")
_SEEN = {("races", "racecheck"), ("in_step", "racecheck"), ("strays", "memcheck"), ("unset", "initcheck")}


@pytest.mark.skipif(no_cuda_device() is not None, reason=str(no_cuda_device()))
def test_each_tool_finds_its_kernel_and_names_the_line(cli_here: Cli) -> None:
    done = cli_here("run", "--pack", _PACK, "--max-cases", "96", "--seed", "1", "--sanitize", "--no-shrink", "-v")
    assert {*_failing(done.stdout)} == _SEEN, done.stdout
    for words in ("Race reported between", "softmax.cu:", "Uninitialized __global__ memory read", "sums.py:"):
        assert words in done.stdout, done.stdout


def _failing(table: str) -> Iterator[tuple[str, str]]:
    """Each kernel with a tool under which it failed, from the lines of a run's table."""
    kernel = ""
    for line in table.splitlines():
        if found := re.match(r"(\S+) +\d of \d ", line):
            kernel = found[1]
        elif found := re.match(r" +cuda:sanitizer=(\w+) +\d+ +[1-9]", line):
            yield kernel, found[1]
