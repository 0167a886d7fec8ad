"""grouped_matmul in Triton: a tile of one group's matrix by each program, over the terms of that group alone."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE = 16
"""The rows and columns of a tile."""
STEPS = 32
"""The terms that are added to it at once."""


@triton.jit
def tiled(
    a_ptr, b_ptr, offs_ptr, collected_ptr, c_ptr, m, n, am, ak, bk, bn, o, zg, zm, zn, cg, cm, cn,
    COLLECTED: tl.constexpr, TILE: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """One tile of one group, which is stored though the group may have no terms."""
    group, tile, across = tl.program_id(1).to(tl.int64), tl.program_id(0), tl.cdiv(n, TILE)
    rows = (tile // across * TILE + tl.arange(0, TILE)).to(tl.int64)
    columns = (tile % across * TILE + tl.arange(0, TILE)).to(tl.int64)
    first = tl.load(offs_ptr + (group - 1) * o, mask=group > 0, other=0).to(tl.int64)
    end = tl.load(offs_ptr + group * o).to(tl.int64)
    sums = tl.zeros((TILE, TILE), tl.float32)
    for start in range(first, end, STEPS):
        steps = start + tl.arange(0, STEPS)
        own = steps < end
        a = tl.load(
            a_ptr + rows[:, None] * am + steps[None, :] * ak, mask=(rows < m)[:, None] & own[None, :], other=0.0
        )
        b = tl.load(
            b_ptr + steps[:, None] * bk + columns[None, :] * bn, mask=own[:, None] & (columns < n)[None, :], other=0.0
        )
        sums += tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    if COLLECTED:
        places = group * zg + rows[:, None] * zm + columns[None, :] * zn
        sums += tl.load(collected_ptr + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(c_ptr + group * cg + rows[:, None] * cm + columns[None, :] * cn, sums, mask=inside)


def grouped_matmul(
    a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, collected: torch.Tensor | None = None, *, c: torch.Tensor
) -> None:
    """Tiles of all groups, each by one program."""
    if c.numel():
        groups, m, n = c.shape
        before = c if collected is None else collected
        tiled[(triton.cdiv(m, TILE) * triton.cdiv(n, TILE), groups)](
            a, b, offs, before, c, m, n, *a.stride(), *b.stride(), *offs.stride(), *before.stride(), *c.stride(),
            collected is not None, TILE, STEPS,
        )  # fmt: skip
