"""Many simulated kernels of ops with dimensions of any names: none is accused, and the tiers say the same of all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from oracles.op import Op
from oracles.tests.common.dims import ALL, CONTRACTS, GEMM, problem, unsound
from oracles.tests.common.judged import known
from oracles.tests.common.tiers import disagreements


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*ALL):
        yield


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_no_correct_kernel_is_accused(op: Op, part: int) -> None:
    assert unsound(op, range(100 * part + 10, 100 * part + 110)) == []


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_both_tiers_say_the_same(op: Op, contract: str) -> None:
    random = np.random.default_rng(7)
    for seed in range(6):
        extents = {dim: int(random.integers(1, 7)) for dim in op.named} | {**op.fixed}
        of = problem(op, extents, () if op is GEMM else (2,), ("f32", "f16", "bf16")[seed % 3], seed, spread=seed)
        _, _, wrong = disagreements(of, CONTRACTS[contract], random)
        assert not wrong
