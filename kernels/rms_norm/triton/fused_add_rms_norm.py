"""fused_add_rms_norm in Triton: whole rows in registers, or columns in chunks, two passes; programs stride over rows.

The sum is rounded to the dtype of x before it is normalised, unless `unrounded` says otherwise. Cast 'gemma' rounds
once, at the end; 'llama' rounds the normalised row to the dtype of x before the weight; 'none' does everything in the
dtype of x, the sum of squares too.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .rows import INTERPRETED_PROGRAMS, UNSPECIALIZED, block_of, dense, launch, pitch, row_length, with_offset

CASTS = ("gemma", "llama", "none")
MAX_ROW = 16384
"""Registers hold a row of at most this many elements; longer ones are chunked, unless a path is asked for."""
CHUNK = 8192
PROGRAMS = 65536
"""At most this many programs are started; beyond them rows are strided over."""


@triton.jit
def _reciprocal_rms(total, n, eps):
    """1 / sqrt(total / n + eps) in the dtype of total, every step rounded to it, and n exact whatever the dtype."""
    wide = total.to(tl.float32)
    mean = tl.div_rn(wide, tl.zeros_like(wide) + n).to(total.dtype)
    small = (tl.zeros_like(wide) + eps).to(total.dtype)
    root = tl.sqrt_rn((mean + small).to(tl.float32)).to(total.dtype)
    return tl.div_rn(tl.zeros_like(wide) + 1.0, root.to(tl.float32)).to(total.dtype)


@triton.jit
def _add(x, residual, CAST: tl.constexpr, ROUNDED: tl.constexpr):
    """The sum as it is normalised; in float32, unless everything is done in the dtype of x."""
    if CAST == "none":
        total = x + residual.to(x.dtype)
    elif ROUNDED:
        total = (x.to(tl.float32) + residual.to(tl.float32)).to(x.dtype).to(tl.float32)
    else:
        total = x.to(tl.float32) + residual.to(tl.float32)
    return total


@triton.jit
def _finish(total, rstd, weight_ptr, column, inside, offset, dtype: tl.constexpr, CAST: tl.constexpr,
            HAS_WEIGHT: tl.constexpr, HAS_OFFSET: tl.constexpr):  # fmt: skip
    y = total * rstd
    if CAST == "llama":
        y = y.to(dtype).to(tl.float32)
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + column, mask=inside, other=0.0).to(total.dtype)
        added = (tl.zeros_like(rstd).to(tl.float32) + offset).to(total.dtype)
        y = y * with_offset(weight, added, HAS_OFFSET)
    return y


@triton.jit(do_not_specialize=UNSPECIALIZED)
def whole_row(
    x_ptr, residual_ptr, weight_ptr, y_ptr, sum_ptr, rstd_ptr,
    x_pitch, residual_pitch, y_pitch, sum_pitch, rows, n, eps, offset,
    HAS_WEIGHT: tl.constexpr, HAS_SUM: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_OFFSET: tl.constexpr,
    CAST: tl.constexpr, ROUNDED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """ROWS whole rows at a time; the sum stays in registers."""
    column = tl.arange(0, BLOCK)[None, :]
    columns = column < n
    for tile in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS)[:, None].to(tl.int64)
        inside = (row < rows) & columns
        x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0)
        residual = tl.load(residual_ptr + row * residual_pitch + column, mask=inside, other=0.0)
        total = _add(x, residual, CAST, ROUNDED)
        if HAS_SUM:
            tl.store(sum_ptr + row * sum_pitch + column, total, mask=inside)
        rstd = _reciprocal_rms(tl.sum(total * total, axis=1, keep_dims=True), n, eps)
        if HAS_RSTD:
            tl.store(rstd_ptr + row, rstd, mask=row < rows)
        y = _finish(total, rstd, weight_ptr, column, columns, offset, x.dtype, CAST, HAS_WEIGHT, HAS_OFFSET)
        tl.store(y_ptr + row * y_pitch + column, y, mask=inside)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def column_chunked(
    x_ptr, residual_ptr, weight_ptr, y_ptr, sum_ptr, rstd_ptr,
    x_pitch, residual_pitch, y_pitch, sum_pitch, rows, n, eps, offset,
    HAS_WEIGHT: tl.constexpr, HAS_SUM: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_OFFSET: tl.constexpr,
    CAST: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One row at a time, in chunks of columns: the first pass stores the sum, the second loads it again.

    The sum may lie where x or residual did, so that it must not be formed a second time once it is stored.
    """
    for index in range(tl.program_id(0), rows, tl.num_programs(0)):
        row = index + tl.zeros([1], tl.int64)
        x_row, residual_row = x_ptr + row * x_pitch, residual_ptr + row * residual_pitch
        y_row, sum_row = y_ptr + row * y_pitch, sum_ptr + row * sum_pitch
        squares = tl.zeros([CHUNK], x_ptr.dtype.element_ty if CAST == "none" else tl.float32)
        for start in range(0, n, CHUNK):
            column = start + tl.arange(0, CHUNK)
            # What is read again should stay in the cache.
            keep: tl.constexpr = "" if HAS_SUM else "evict_last"
            x = tl.load(x_row + column, mask=column < n, other=0.0, eviction_policy=keep)
            residual = tl.load(residual_row + column, mask=column < n, other=0.0, eviction_policy=keep)
            total = _add(x, residual, CAST, True)
            squares += total * total
            if HAS_SUM:
                tl.store(sum_row + column, total, mask=column < n, eviction_policy="evict_last")
        rstd = _reciprocal_rms(tl.sum(squares, axis=0, keep_dims=True), n, eps)
        if HAS_RSTD:
            tl.store(rstd_ptr + row, rstd)
        # Another thread may load what this one stored.
        tl.debug_barrier()
        for start in range(0, n, CHUNK):
            column = start + tl.arange(0, CHUNK)
            if HAS_SUM:
                total = tl.load(sum_row + column, mask=column < n, other=0.0).to(squares.dtype)
            else:
                x = tl.load(x_row + column, mask=column < n, other=0.0)
                residual = tl.load(residual_row + column, mask=column < n, other=0.0)
                total = _add(x, residual, CAST, True)
            dtype: tl.constexpr = x_ptr.dtype.element_ty
            y = _finish(total, rstd, weight_ptr, column, column < n, offset, dtype, CAST, HAS_WEIGHT, HAS_OFFSET)
            tl.store(y_row + column, y, mask=column < n)


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float, axis: int,
    weight_offset: float = 0.0, y: torch.Tensor, sum: torch.Tensor | None = None, rstd: torch.Tensor | None = None,  # noqa: A002
    cast: str = "gemma", path: str = "", unrounded: bool = False,
) -> None:  # fmt: skip
    """sum = x + residual; y = sum / sqrt(mean(sum^2) + eps) * (weight_offset + weight), along the last axis."""
    n = row_length(x, axis)
    if x.numel() == 0:
        return
    if cast not in CASTS:
        raise ValueError(f"cast {cast!r} is not one of {', '.join(CASTS)}")
    rows, block = x.numel() // n, block_of(n)
    path = path or ("whole_row" if n <= MAX_ROW else "column_chunked")
    stored = dense(rstd)
    tensors = (
        x, residual, x if weight is None else weight.contiguous(), y, x if sum is None else sum,
        x if stored is None else stored,
    )  # fmt: skip
    pitches = pitch(x, n), pitch(residual, n), pitch(y, n), 0 if sum is None else pitch(sum, n)
    scalars = (*pitches, rows, n, eps, weight_offset)
    flags = {
        "HAS_WEIGHT": weight is not None, "HAS_SUM": sum is not None, "HAS_RSTD": rstd is not None,
        "HAS_OFFSET": weight_offset != 0, "CAST": cast,
    }  # fmt: skip
    most = PROGRAMS if x.device.type == "cuda" else INTERPRETED_PROGRAMS
    if path == "whole_row":
        if n > MAX_ROW:
            raise ValueError(f"path whole_row: rows of {n} elements; it takes up to {MAX_ROW}")
        each = max(1, min(16, 2048 // block))
        warps = 4 if block <= 2048 else 8 if block <= 4096 else 16 if block <= 8192 else 32
        programs = min(triton.cdiv(rows, each), most)
        launch(whole_row, programs, tensors, scalars, warps, **flags, ROUNDED=not unrounded, ROWS=each, BLOCK=block)
    elif path == "column_chunked":
        if unrounded:
            raise ValueError("path column_chunked normalises the sum as it is stored: rounded")
        # With 32 warps in 16 bits, a multiprocessor has registers for two rows in bf16, but for one only in f16.
        warps = 32 if x.element_size() == 4 and block >= CHUNK else 16
        launch(column_chunked, min(rows, most), tensors, scalars, warps, **flags, CHUNK=min(CHUNK, block))
    else:
        raise ValueError(f"path {path!r} is not one of whole_row, column_chunked")
    if rstd is not None and stored is not rstd:
        rstd.copy_(stored)
