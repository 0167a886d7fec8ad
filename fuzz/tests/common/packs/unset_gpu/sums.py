"""Sums of rows by atomic additions to memory that one of them does not clear."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def _added(x, total, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    row, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=0.0)
    tl.atomic_add(total + row, tl.sum(values, axis=0))


def row_sum(x: torch.Tensor, cleared: bool = False) -> torch.Tensor:
    """Return the sum of each row."""
    total, n = torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device), x.shape[-1]
    if cleared:
        total.zero_()
    _added[(total.numel(), triton.cdiv(n, 64))](x, total, n, BLOCK=64)
    return total
