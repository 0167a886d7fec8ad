"""Published solutions that tune themselves, judged as they are, in Triton's interpreter and on a GPU if there is one:
each configuration alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import fuzz

SOFTMAX_TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(16, 200)]
"""
SOFTMAX = """
import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in (32, 128) for w in (4, 8)],
    key=["n"],
)
@triton.jit
def _softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    top = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        top = tl.maximum(top, tl.load(x + row + at, mask=at < n, other=float("-inf")))
    high = tl.max(top)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.exp(tl.load(x + row + at, mask=at < n, other=float("-inf")) - high)
    low = tl.sum(total)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + row + at, tl.exp(tl.load(x + row + at, mask=at < n) - high) / low, mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _softmax[(x.numel() // x.shape[-1],)](x, y, x.shape[-1])
        return y
"""
MATMUL_TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(40, 24), torch.randn(24, 56)]
"""
MATMUL = """
import torch
import triton
import triton.language as tl


def pruned(configs, args, **more):
    return [each for each in configs if each.kwargs["BLOCK_K"] <= max(args["k"], 16)] or configs[:1]


def get_configs():
    return [
        triton.Config({"BLOCK_M": m, "BLOCK_N": 32, "BLOCK_K": k}, num_stages=s, num_warps=4)
        for m, k in ((16, 16), (32, 16), (32, 32)) for s in (2, 3)
    ]


@triton.autotune(configs=get_configs(), key=["m", "n", "k"], prune_configs_by={"early_config_prune": pruned})
@triton.heuristics({"EVEN_K": lambda args: args["k"] % args["BLOCK_K"] == 0})
@triton.jit
def _matmul(
    a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, k, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        there = (inner < k) | EVEN_K
        one = tl.load(a + rows[:, None] * k + inner[None, :], mask=(rows[:, None] < m) & there[None, :], other=0.0)
        inside = there[:, None] & (columns < n)[None, :]
        two = tl.load(b + inner[:, None] * n + columns[None, :], mask=inside, other=0.0)
        total += tl.dot(one, two, input_precision="ieee")
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        c = torch.empty(m, n, dtype=a.dtype, device=a.device)
        if c.numel():
            _matmul[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](a, b, c, m, n, k)
        return c
"""


@pytest.mark.parametrize(
    ("task", "right", "old", "new", "decides", "named"),
    [
        (
            SOFTMAX_TASK, SOFTMAX, "low = tl.sum(total)", "low = tl.sum(total) * (1.001 if BLOCK == 128 else 1.0)",
            "BLOCK = 128", "BLOCK=128",
        ),
        (
            MATMUL_TASK, MATMUL, "total = tl.zeros(", "total = (0.001 if BLOCK_K == 32 else 0.0) + tl.zeros(",
            "BLOCK_K = 32", "BLOCK_M=32,BLOCK_K=32",
        ),
    ],
    ids=["softmax", "matmul"],
)  # fmt: skip
def test_a_right_one_is_right_and_the_configuration_of_a_wrong_one_is_named(
    tmp_path: Path, task: str, right: str, old: str, new: str, decides: str, named: str
) -> None:
    assert right.count(old) == 1
    for name, text in (("task", task), ("right", right), ("wrong", right.replace(old, new))):
        (tmp_path / f"{name}.py").write_text(text)
    files = [tmp_path / "right.py", tmp_path / "wrong.py"]
    ruling = fuzz.judge(files, against=tmp_path / "task.py", seed=1, max_cases=40, output=tmp_path / "judged")
    found = {Path(each.solution).stem: each for each in ruling.solutions}
    assert found["right"].verdict == "right", found["right"]
    assert found["right"].judged > 40, "each configuration is judged"
    assert found["wrong"].verdict == "wrong"
    # Where there is a GPU, it has targets of its own, whose names say the number of stages, too.
    assert found["wrong"].failures
    for failure in found["wrong"].failures:
        assert failure["target"].partition(":")[2].startswith(named)
        assert failure["attribution"]["configuration"] == decides
