"""Every algorithm of an op is one that a kernel takes here: so each is judged as it is really calculated."""

from __future__ import annotations

from pathlib import Path

from fuzz.core.adapters.pack import load
from oracles.ops import OPS

PACK = load(Path(__file__).resolve().parents[2])
UNTAKEN = {("rms_norm", "y", "weight first"), ("softmax", "e", "base 2")}
"""What only kernels of thirdparty/ take, and one of `fuzz/tests/cover/tasks/test_check_contract.py`, as flash attention
does."""


def test_each_algorithm_is_that_of_a_kernel() -> None:
    taken = set[tuple[str, str, str]]()
    for kernel in PACK.kernels:
        for local, ways in kernel.contract.algorithm.items():
            taken |= {(kernel.op, local, way) for way in ((ways,) if isinstance(ways, str) else ways)}
    known = {
        (op, local, way) for op in {each.op for each in PACK.kernels} for local, ways in OPS[op].algorithms.items()
        for way in ways
    }  # fmt: skip
    assert known - taken == UNTAKEN
