"""grouped_rows_matmul in Triton: a tile of one group's rows by each program, whose tiles begin where the group does."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE = 16
"""The rows of a tile."""
COLUMNS = 64
"""Its columns."""
STEPS = 32
"""The terms that are added to it at once."""


@triton.jit
def tiled(
    a_ptr, b_ptr, offs_ptr, bias_ptr, c_ptr, m, n, k, groups, am, ak, bg, bk, bn, o, zg, zn, cm, cn,
    BIAS: tl.constexpr, GROUPS: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr,
    STEPS: tl.constexpr,
):  # fmt: skip
    """One tile of one group, or of the rows behind the last one, which are 0. There may be programs to spare."""
    tile, ids = tl.program_id(0), tl.arange(0, GROUPS)
    ends = tl.load(offs_ptr + ids * o, mask=ids < groups, other=m).to(tl.int64)
    firsts = tl.load(offs_ptr + (ids - 1) * o, mask=(ids > 0) & (ids <= groups), other=0).to(tl.int64)
    firsts = tl.where(ids > groups, ends, firsts)
    tiles = (ends - firsts + TILE - 1) // TILE
    behind = tl.cumsum(tiles, 0)
    group = tl.sum((behind <= tile).to(tl.int64), 0)
    first = tl.sum(tl.where(ids == group, firsts + (tile - behind + tiles) * TILE, 0), 0)
    end = tl.sum(tl.where(ids == group, ends, 0), 0)
    rows = first + tl.arange(0, TILE)
    columns = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)
    sums = tl.zeros((TILE, COLUMNS), tl.float32)
    inside = (rows < end)[:, None] & (columns < n)[None, :]
    if (group < groups) & (first < end):
        for start in range(0, k, STEPS):
            steps = start + tl.arange(0, STEPS)
            own = steps < k
            a = tl.load(
                a_ptr + rows[:, None] * am + steps[None, :] * ak, mask=(rows < end)[:, None] & own[None, :], other=0.0
            )
            b = tl.load(
                b_ptr + group * bg + steps[:, None] * bk + columns[None, :] * bn,
                mask=own[:, None] & (columns < n)[None, :], other=0.0,
            )  # fmt: skip
            sums += tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
        if BIAS:
            bias = tl.load(bias_ptr + group * zg + columns * zn, mask=columns < n, other=0.0)
            sums += bias.to(tl.float32)[None, :]
    tl.store(c_ptr + rows[:, None] * cm + columns[None, :] * cn, sums, mask=inside)


def grouped_rows_matmul(
    a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, bias: torch.Tensor | None = None, *, c: torch.Tensor
) -> None:
    """No group has more than one tile that is not full; which rows a group has is known on the device alone."""
    if c.numel():
        (m, n), (groups, k, _) = c.shape, b.shape
        added = c if bias is None else bias
        tiled[(triton.cdiv(m, TILE) + groups + 1, triton.cdiv(n, COLUMNS))](
            a, b, offs, added, c, m, n, k, groups, *a.stride(), *b.stride(), *offs.stride(), *added.stride(),
            *c.stride(), bias is not None, triton.next_power_of_2(groups + 1), TILE, COLUMNS,
            STEPS,
        )  # fmt: skip
