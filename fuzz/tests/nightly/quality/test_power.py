"""What is caught is no larger than what others notice."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fuzz.quality.power import smallest
from oracles.ops import OPS

_WIDER: Mapping[tuple[str, int], int] = {("log_softmax_backward", 4096): 2}
"""A sum of 4096 terms that cancel is allowed the worst case of its order, which is so many powers of two beyond torch's
fixed tolerance."""


@pytest.mark.parametrize("n", [64, 4096])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("op", OPS)
def test_no_tolerance_notices_what_is_not_caught(op: str, dtype: str, n: int) -> None:
    for each in smallest(OPS[op], dtype, 32, n, 1):
        for other in (each.torch, each.suite):
            if other is not None:
                assert each.caught is not None, each
                assert each.caught <= other + _WIDER.get((op, n), 0), each
