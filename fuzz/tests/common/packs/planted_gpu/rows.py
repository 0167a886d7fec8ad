"""Triton kernels as they are written first, one row in each program, with a mistake each but for `right`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

PARTS = 8
"""Programs that share the row of a sum."""


@triton.jit  # type: ignore[untyped-decorator]
def _softmax(x_ptr, y_ptr, x_pitch, y_pitch, n, KIND: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    start = row * x_pitch
    if KIND == "hint":
        start = tl.multiple_of(start, 16)
    at = x_ptr + start + column
    inside = column < n
    if KIND == "mask":
        x = tl.load(at, mask=column <= n, other=float("-inf"))
    elif KIND == "other":
        x = tl.load(at, mask=inside)
    elif KIND == "where":
        x = tl.load(at)
    else:
        x = tl.load(at, mask=inside, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    if KIND == "where":
        e = tl.where(inside, e, 0.0)
    tl.store(y_ptr + row * y_pitch + column, tl.div_rn(e, tl.zeros_like(e) + tl.sum(e, axis=0)), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _sum(x_ptr, y_ptr, n, BLOCK: tl.constexpr, PARTS: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(part * BLOCK, n, PARTS * BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * n + column, mask=column < n, other=0.0)
    tl.store(y_ptr + row, tl.load(y_ptr + row) + tl.sum(total, axis=0))


def softmax(x: torch.Tensor, *, y: torch.Tensor, kind: str) -> None:
    """The softmax of each row."""
    n = x.shape[-1]
    rows, out = x.view(-1, n), y.view(-1, n)
    _softmax[(len(rows),)](rows, out, rows.stride(0), out.stride(0), n, kind, triton.next_power_of_2(n))


def row_sum(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """The sum of each row: programs that share one add to it without waiting for one another."""
    y.zero_()
    _sum[(y.numel(), PARTS)](x.contiguous(), y, x.shape[-1], BLOCK=64, PARTS=PARTS)
