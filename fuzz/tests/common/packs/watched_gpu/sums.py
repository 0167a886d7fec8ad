"""Sums of rows by blocks in Triton: a right one, and such as read what they should not and make nothing of it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit  # type: ignore[untyped-decorator]
def _parts(x_ptr, part_ptr, n, room, STRAYS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    row, part = tl.program_id(0), tl.program_id(1)
    column = part * BLOCK + tl.arange(0, BLOCK)
    at = x_ptr + row * n + column
    x = tl.load(at) if STRAYS else tl.load(at, mask=column < n, other=0.0)
    if STRAYS:  # all that was loaded is looked at, or the compiler could leave the rest out
        x = tl.where(column < n, x, 0.0) + tl.where(tl.max(x, axis=0) == 1.25e30, 1.0, 0.0)
    tl.store(part_ptr + row * room + part, tl.sum(x, axis=0))


@triton.jit  # type: ignore[untyped-decorator]
def _total(part_ptr, y_ptr, parts, PARTS: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    row, part = tl.program_id(0), tl.arange(0, PARTS)
    found = tl.load(part_ptr + row * PARTS + part)
    tl.store(y_ptr + row, tl.sum(tl.where(part < parts, found, 0.0), axis=0))


def row_sum(x: torch.Tensor, *, y: torch.Tensor, kind: str) -> None:
    """The sum of each row. What is `unset`, or read where it `strays`, is of no consequence."""
    rows, n = y.numel(), x.shape[-1]
    parts = triton.cdiv(n, BLOCK)
    room = triton.next_power_of_2(parts)
    part = (torch.empty if kind == "unset" else torch.zeros)((rows, room), device=x.device)
    _parts[(rows, parts)](x.contiguous(), part, n, room, kind == "strays", BLOCK)
    _total[(rows,)](part, y, parts, room)
