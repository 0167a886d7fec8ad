"""matmul in Triton: tiles of c, each by one program; and k split among programs that add to c one after the other.

Matrices lie anywhere: each has a distance between matrices, rows and columns. Sums are float32, with one cast at the
end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE = 32
"""The rows and columns of a tile, and the terms that are added to it at once."""
PARTS = 4
"""k is split into at most so many parts."""


IEEE, CORES, ROUNDED = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""How f32 is multiplied: as it is, as TF32 however the cores make it of that, or rounded to TF32 before."""


@triton.jit
def _factor(values):
    """The numbers rounded to 11 bits, ties to the larger one. What is no finite number stays as it is."""
    bits = values.to(tl.int32, bitcast=True)
    rounded = ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return tl.where((bits & 0x7F800000) == 0x7F800000, values, rounded)


@triton.jit
def _partial(a_ptr, b_ptr, rows, columns, m, n, k, first, last, am, ak, bk, bn, TILE: tl.constexpr, BY: tl.constexpr):
    """The terms from `first` to `last` of a tile."""
    sums = tl.zeros((TILE, TILE), tl.float32)
    for start in range(first, last, TILE):
        steps = start + tl.arange(0, TILE)
        inside = steps < last
        a = tl.load(
            a_ptr + rows[:, None] * am + steps[None, :] * ak, mask=(rows < m)[:, None] & inside[None, :], other=0.0
        )
        b = tl.load(
            b_ptr + steps[:, None] * bk + columns[None, :] * bn,
            mask=inside[:, None] & (columns < n)[None, :],
            other=0.0,
        )
        if BY == ROUNDED:
            a, b = _factor(a), _factor(b)
        sums = tl.dot(a, b, sums, input_precision="ieee" if BY == IEEE else "tf32")
    return sums


@triton.jit
def _place(m, n, TILE: tl.constexpr):
    """The rows and columns of the program's tile."""
    tile, across = tl.program_id(0), tl.cdiv(n, TILE)
    rows, columns = tile // across * TILE + tl.arange(0, TILE), tile % across * TILE + tl.arange(0, TILE)
    return rows.to(tl.int64), columns.to(tl.int64)


@triton.jit
def tiled(
    a_ptr, b_ptr, bias_ptr, c_ptr, m, n, k, az, am, ak, bz, bk, bn, cz, cm, cn, bias_step,
    BIAS: tl.constexpr, RELU: tl.constexpr, TILE: tl.constexpr, BY: tl.constexpr,
):  # fmt: skip
    """One tile of c."""
    matrix = tl.program_id(1).to(tl.int64)
    rows, columns = _place(m, n, TILE)
    z = _partial(a_ptr + matrix * az, b_ptr + matrix * bz, rows, columns, m, n, k, 0, k, am, ak, bk, bn, TILE, BY)
    if BIAS:
        z += tl.load(bias_ptr + columns * bias_step, mask=columns < n, other=0.0).to(tl.float32)[None, :]
    if RELU:
        z = tl.where(z <= 0.0, 0.0, z)
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(c_ptr + matrix * cz + rows[:, None] * cm + columns[None, :] * cn, z, mask=inside)


@triton.jit
def split(
    a_ptr, b_ptr, bias_ptr, c_ptr, m, n, k, part, az, am, ak, bz, bk, bn, cz, cm, cn, bias_step,
    BIAS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """One tile of c, and one part of k: the first part adds the bias."""
    matrix, number = tl.program_id(1).to(tl.int64), tl.program_id(2)
    rows, columns = _place(m, n, TILE)
    first, last = number * part, tl.minimum(k, number * part + part)
    z = _partial(
        a_ptr + matrix * az, b_ptr + matrix * bz, rows, columns, m, n, k, first, last, am, ak, bk, bn, TILE, IEEE
    )
    if BIAS and number == 0:
        z += tl.load(bias_ptr + columns * bias_step, mask=columns < n, other=0.0).to(tl.float32)[None, :]
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    tl.atomic_add(c_ptr + matrix * cz + rows[:, None] * cm + columns[None, :] * cn, z, mask=inside)


def matmul(
    a: torch.Tensor, b: torch.Tensor, *, axis: int, c: torch.Tensor, bias: torch.Tensor | None = None, relu: float = 0.0
) -> None:
    """Tiles of c, each by one program."""
    _tiles(a, b, c, bias, relu, IEEE)


def by_cores(
    a: torch.Tensor, b: torch.Tensor, *, axis: int, c: torch.Tensor, bias: torch.Tensor | None = None, relu: float = 0.0
) -> None:
    """The same by tensor cores, which make TF32 of f32."""
    _tiles(a, b, c, bias, relu, CORES)


def rounded(
    a: torch.Tensor, b: torch.Tensor, *, axis: int, c: torch.Tensor, bias: torch.Tensor | None = None, relu: float = 0.0
) -> None:
    """The same of numbers that are rounded to TF32 before."""
    _tiles(a, b, c, bias, relu, ROUNDED)


def _tiles(a, b, c, bias, relu, by):
    grid = _grid(a, b, c)
    if grid is None:
        return
    (tiles, batch), operands, result, sizes = grid
    tiled[(tiles, batch)](
        *operands, a if bias is None else bias, result, *sizes, *_strides(*operands, result),
        0 if bias is None else bias.stride(0), bias is not None, relu >= 0.5, TILE, by,
    )  # fmt: skip
    _give(result, c)


def split_k(a: torch.Tensor, b: torch.Tensor, *, axis: int, c: torch.Tensor, bias: torch.Tensor | None = None) -> None:
    """Tiles of c, to each of which several programs add their parts."""
    grid = _grid(a, b, c)
    if grid is None:
        return
    (tiles, batch), operands, result, sizes = grid
    part = max(1, triton.cdiv(triton.cdiv(sizes[2], TILE), PARTS)) * TILE
    result.zero_()
    split[(tiles, batch, max(1, triton.cdiv(sizes[2], part)))](
        *operands, a if bias is None else bias, result, *sizes, part, *_strides(*operands, result),
        0 if bias is None else bias.stride(0), bias is not None, TILE,
    )  # fmt: skip
    _give(result, c)


def _grid(a, b, c):
    """The programs, the operands and the result with one dimension before their own two, and m, n and k; None where
    there is nothing to calculate."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    if c.numel() == 0:
        return None
    batch = c.shape[:-2].numel()
    operands = [each.reshape(batch, *each.shape[-2:]) for each in (a, b)]
    result = c.unsqueeze(0) if c.ndim == 2 else c if c.ndim == 3 else c.new_empty(batch, m, n)
    return (triton.cdiv(m, TILE) * triton.cdiv(n, TILE), batch), operands, result, (m, n, k)


def _strides(*tensors):
    return [step for each in tensors for step in each.stride()]


def _give(result, c):
    if c.ndim > 3:
        c.copy_(result.reshape(c.shape))
