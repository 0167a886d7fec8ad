"""dequantize_matmul in Triton: a tile of c by each program, the weights scaled before they are multiplied."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE = 16
"""The rows and columns of a tile."""
STEPS = 32
"""The elements of a group that are added at once."""


@triton.jit
def tiled(x_ptr, q_ptr, scale_ptr, c_ptr, m, n, groups, k, TILE: tl.constexpr, STEPS: tl.constexpr):
    """One tile of c."""
    rows = (tl.program_id(0) * TILE + tl.arange(0, TILE)).to(tl.int64)
    columns = (tl.program_id(1) * TILE + tl.arange(0, TILE)).to(tl.int64)
    sums = tl.zeros((TILE, TILE), tl.float32)
    for g in range(groups):
        scale = tl.load(scale_ptr + columns * groups + g, mask=columns < n, other=0.0).to(tl.float32)
        for start in range(0, k, STEPS):
            steps = start + tl.arange(0, STEPS)
            inside = steps < k
            places = g * k + steps
            x = tl.load(
                x_ptr + rows[:, None] * (groups * k) + places[None, :],
                mask=(rows < m)[:, None] & inside[None, :],
                other=0.0,
            )
            q = tl.load(
                q_ptr + columns[None, :] * (groups * k) + places[:, None],
                mask=(columns < n)[None, :] & inside[:, None],
                other=0,
            )
            # Beyond the last element a scale of infinity would make NaN of zeros.
            w = tl.where(inside[:, None], q.to(tl.float32) * scale[None, :], 0.0)
            sums += tl.dot(x.to(tl.float32), w, input_precision="ieee")
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], sums, mask=inside)


def dequantize_matmul(x: torch.Tensor, q: torch.Tensor, scale: torch.Tensor, *, c: torch.Tensor) -> None:
    """Tiles of c, each by one program."""
    if c.numel():
        (m, groups, k), n = x.shape, len(q)
        tiled[(triton.cdiv(m, TILE), triton.cdiv(n, TILE))](x, q, scale, c, m, n, groups, k, TILE, STEPS)
