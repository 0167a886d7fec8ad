"""embedding and its gradient in Triton: a row of each place in one program, joined by atomic additions.

Rows lie one pitch apart; their elements are neighbours.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 256
"""Elements of a row that a program has at once."""


@triton.jit
def gathered(table_ptr, index_ptr, y_ptr, table_pitch, y_pitch, n, BLOCK: tl.constexpr):
    """One block of one row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(index_ptr + row).to(tl.int64)
    kept = tl.where(place < 0, 0, n)
    values = tl.load(table_ptr + place * table_pitch + column, mask=column < kept, other=0.0)
    tl.store(y_ptr + row * y_pitch + column, values, mask=column < n)


@triton.jit
def scattered(dy_ptr, index_ptr, sums_ptr, dy_pitch, n, BLOCK: tl.constexpr):
    """One block of one row of dy, added to the row of the sums that is its."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(index_ptr + row).to(tl.int64)
    inside = column < tl.where(place < 0, 0, n)
    dy = tl.load(dy_ptr + row * dy_pitch + column, mask=inside, other=0.0).to(tl.float32)
    tl.atomic_add(sums_ptr + place * n + column, dy, mask=inside)


def embedding(table: torch.Tensor, index: torch.Tensor, *, y: torch.Tensor) -> None:
    """The rows of all places."""
    if y.numel():
        n = y.shape[1]
        gathered[(len(index), triton.cdiv(n, BLOCK))](table, index, y, table.stride(0), y.stride(0), n, BLOCK)


def embedding_backward(collected: torch.Tensor, dy: torch.Tensor, index: torch.Tensor, *, dtable: torch.Tensor) -> None:
    """The sums begin as what was collected, in float32, and are rounded once."""
    sums = collected.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    if dy.numel():
        n = dy.shape[1]
        scattered[(len(index), triton.cdiv(n, BLOCK))](dy, index, sums, dy.stride(0), n, BLOCK)
    dtable.copy_(sums)
