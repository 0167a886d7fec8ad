"""A function of a test that launches an autotuned kernel of Triton: each configuration is checked in its process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz
from oracles.tests.common.whole import WHOLE

SUMS = """
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in (16, 64) for w in (4, 8)], key=["n"])
@triton.jit
def _sums(x, y, n, BLOCK: tl.constexpr):
    row, total = tl.program_id(0) * n, tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row + at, mask=at < n, other=0.0)
    tl.store(y + tl.program_id(0), tl.sum(total))


class Sums(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], dtype=x.dtype)
        _sums[(x.shape[0],)](x, y, x.shape[1])
        return y


def sums(x):
    return Sums()(x)
"""
WRONG = SUMS.replace("mask=at < n", "mask=(at < n) & ((at % 64 < 63) | (BLOCK < 64))")
"""It leaves out elements in one configuration."""


CHECK = """
import sys, fuzz, right, wrong

def check(kernel, **more):
    fuzz.check(
        kernel, reference=lambda x: x.sum(-1), shapes={"x": "b n"}, fixed={"b": 2}, contract=fuzz.Contract(), seed=1,
        max_cases=8, capabilities=fuzz.Capabilities(empty=False, max={"n": 100}), **more,
    )

before = type(right._sums).run
check(lambda x: right.sums(x))
assert type(right._sums).run is before and len(right._sums.configs) == 4
try:
    check(wrong.sums)
except fuzz.CheckFailed as failed:
    print(failed)
check(wrong.sums, targets=["*BLOCK=16"])
"""


_BESIDE = """
import fuzz, right

def mine(x):
    return 2 * x

fuzz.check(mine, reference=lambda x: 2 * x, shapes="x=b n", seed=1)
fuzz.check(lambda x: right.sums(x), reference=lambda x: x.sum(-1), shapes="x=b n", seed=1, max_cases=4)
"""


@pytest.mark.whole
def test_a_function_beside_one_in_triton_is_given_large_cases(tmp_path: Path) -> None:
    """Whether the interpreter runs a kernel is seen in what it calls, not in what stands in its module."""
    (tmp_path / "right.py").write_text(SUMS)
    (tmp_path / "checks.py").write_text(f"{SUMS}\n{_BESIDE}")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(fuzz.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "checks.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    mine, _, sums = " ".join(done.stderr.split()).partition("passed: 4 cases")
    assert "extents in f32 up to 65,537" in mine
    assert "65,537" not in sums


def test_each_configuration_is_checked_in_the_process_of_a_test(tmp_path: Path) -> None:
    """The interpreter is chosen before Triton is imported, as a suite does it."""
    for name, text in (("right", SUMS), ("wrong", WRONG), ("checks", CHECK)):
        (tmp_path / f"{name}.py").write_text(text)
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "KERNELFUZZ_EXPLAIN_S": "0.001" if WHOLE else "0",
        "PYTHONPATH": str(Path(fuzz.__file__).parents[1]),
    }
    del environment["PYTEST_CURRENT_TEST"]  # an option of pytest would take the place of the variable
    done = subprocess.run(
        [sys.executable, "checks.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    if WHOLE:  # adapters/test_configurations.py has one explained that no interpreter runs
        assert ", with BLOCK = 64 only" in " ".join(done.stdout.split())
    assert "cpu:BLOCK=64" in done.stdout
    passed = re.findall(r"^(\w+) passed: 8 cases on (\S+)", done.stderr, re.MULTILINE)
    assert passed == [("lambda", "2"), ("sums", "torch-sums@cpu:BLOCK=16")]
