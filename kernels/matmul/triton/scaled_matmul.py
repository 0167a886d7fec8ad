"""scaled_matmul in Triton: a tile of c by each program, its terms added as int32."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE = 32
"""The rows and columns of a tile, and the terms that are added to it at once."""


@triton.jit
def tiled(
    sa_ptr, a_ptr, b_ptr, sb_ptr, bias_ptr, c_ptr, m, n, k, sa_step, am, ak, bk, bn, sb_step, cm, cn, bias_step,
    BIAS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """One tile of c."""
    rows = (tl.program_id(0) * TILE + tl.arange(0, TILE)).to(tl.int64)
    columns = (tl.program_id(1) * TILE + tl.arange(0, TILE)).to(tl.int64)
    sums = tl.zeros((TILE, TILE), tl.int32)
    for start in range(0, k, TILE):
        steps = start + tl.arange(0, TILE)
        inside = steps < k
        a = tl.load(
            a_ptr + rows[:, None] * am + steps[None, :] * ak, mask=(rows < m)[:, None] & inside[None, :], other=0
        )
        b = tl.load(
            b_ptr + steps[:, None] * bk + columns[None, :] * bn, mask=inside[:, None] & (columns < n)[None, :], other=0
        )
        sums = tl.dot(a, b, sums, out_dtype=tl.int32)
    row = tl.load(sa_ptr + rows * sa_step, mask=rows < m, other=0.0).to(tl.float32)
    column = tl.load(sb_ptr + columns * sb_step, mask=columns < n, other=0.0).to(tl.float32)
    z = sums.to(tl.float32) * row[:, None] * column[None, :]
    if BIAS:
        z += tl.load(bias_ptr + columns * bias_step, mask=columns < n, other=0.0).to(tl.float32)[None, :]
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(c_ptr + rows[:, None] * cm + columns[None, :] * cn, z, mask=inside)


def scaled_matmul(
    scale_a: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_b: torch.Tensor, *, axis: int, c: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """Tiles of c, each by one program."""
    (m, k), n = a.shape, b.shape[1]
    if c.numel() == 0:
        return
    tiled[(triton.cdiv(m, TILE), triton.cdiv(n, TILE))](
        scale_a, a, b, scale_b, scale_a if bias is None else bias, c, m, n, k, scale_a.stride(0), *a.stride(),
        *b.stride(), scale_b.stride(0), *c.stride(), 0 if bias is None else bias.stride(0), bias is not None, TILE,
    )  # fmt: skip
