"""What tools of compute-sanitizer see on a GPU is a finding of theirs, with the line, beside the plain search."""

from __future__ import annotations

import re

import pytest

from fuzz.adapters.cuda import no_cuda_device
from fuzz.tests.conftest import CHECKOUT, Cli

_PACK = str(CHECKOUT / "fuzz" / "tests" / "common" / "packs" / "watched_gpu")
_SEEN = {"races": "racecheck", "strays": "memcheck", "unset": "initcheck"}


@pytest.mark.skipif(no_cuda_device() is not None, reason=str(no_cuda_device()))
def test_each_tool_finds_its_kernel_and_names_the_line(cli_here: Cli) -> None:
    done = cli_here("run", "--pack", _PACK, "--max-cases", "160", "--seed", "1", "--sanitize", "--no-shrink", "-v")
    failing = set(re.findall(r"^\w+-(\w+)@cuda:sanitizer=(\w+) +\d+ +[1-9]", done.stdout, re.MULTILINE))
    assert failing == {*_SEEN.items()}, done.stdout
    for words in ("Race reported between", "softmax.cu:", "Uninitialized __global__ memory read", "sums.py:"):
        assert words in done.stdout, done.stdout
