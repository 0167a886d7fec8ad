"""quantize_rows in Triton: of a row that registers hold.

Rows lie one pitch apart; their elements are neighbours. All arithmetic is float32, and each division is rounded once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

MAX_ROW = 16384
"""Registers hold a row of at most this many elements."""


@triton.jit
def codes(x_ptr, q_ptr, scale_ptr, x_pitch, q_pitch, n, of_zeros, BLOCK: tl.constexpr):
    """One row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < n
    x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0).to(tl.float32)
    # The maximum of a reduction passes over NaN.
    nan = tl.max((x != x).to(tl.int32), axis=0, keep_dims=True)
    most = tl.where(nan > 0, float("nan"), tl.max(tl.abs(x), axis=0, keep_dims=True))
    scale = tl.where(most == 0.0, of_zeros, tl.div_rn(most, tl.full([1], 127.0, tl.float32)))
    ratio = tl.div_rn(x, tl.zeros_like(x) + scale)
    ratio = tl.where(ratio > 127.0, 127.0, tl.where(ratio < -128.0, -128.0, ratio))
    # What is added has no bits below 1: the sum is rounded to nearest even.
    code = (ratio + 12582912.0) - 12582912.0
    code = tl.where(most == 0.0, 0.0, tl.where(code != code, 0.0, code))
    tl.store(q_ptr + row * q_pitch + column, code.to(tl.int8), mask=inside)
    tl.store(scale_ptr + row + tl.arange(0, 1), scale)


def quantize_rows(x: torch.Tensor, *, of_zeros: float = 0.0, q: torch.Tensor, scale: torch.Tensor) -> None:
    """The codes of rows, and their scales."""
    if x.numel():
        n = x.shape[-1]
        rows, found = x.view(-1, n), q.view(-1, n)
        block = triton.next_power_of_2(n)
        codes[(len(rows),)](rows, found, scale, rows.stride(0), found.stride(0), n, of_zeros, block)
