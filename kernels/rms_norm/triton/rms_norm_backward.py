"""Backward of rms_norm and fused_add_rms_norm in Triton: programs that stay and keep sums of dw, or one per row.

With h = x rstd and m = dy (weight_offset + weight): dx = rstd (m - h mean(h m)) [+ dsum], dw = sum over rows of dy h;
all in float32. dw is added in an order that the shape and the device fix, without atomic additions.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .rows import (
    INTERPRETED_PROGRAMS,
    UNSPECIALIZED,
    block_of,
    dense,
    launch,
    pitch,
    processors,
    reciprocal_rms,
    row_length,
    stages,
    with_offset,
)  # fmt: skip

MAX_ROW = 16384
"""Registers hold a row of at most this many elements."""
INTERPRETED_COLUMNS = 1024
"""In the interpreter a program adds this many columns of dw, since with the 16 of a GPU long rows take seconds there.
Columns do not mix: it is the same sum."""
MOST_AHEAD = 32768
"""A weight of up to this many bytes is loaded ahead beside the rows; with a longer one, shared memory is left to the
rows."""
DESIGNS = ("persistent", "row_temporary")


@triton.jit
def _row_gradient(h, m, rstd, n):
    mean = tl.div_rn(tl.sum(h * m, axis=1, keep_dims=True), tl.zeros_like(rstd) + n)
    return rstd * (m - h * mean)


@triton.jit
def _rstd(x, rstd_ptr, row, inside, n, eps, HAS_RSTD: tl.constexpr):
    if HAS_RSTD:
        return tl.load(rstd_ptr + row, mask=inside, other=0.0).to(tl.float32)
    # Rows beyond the last are zeros: with eps 0 their root is infinite, and their dw would be 0 * inf.
    return tl.where(inside, reciprocal_rms(tl.sum(x * x, axis=1, keep_dims=True), n, eps), 0.0)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def persistent(
    x_ptr, dy_ptr, dsum_ptr, weight_ptr, rstd_ptr, dx_ptr, dresidual_ptr, partial_ptr,
    x_pitch, dy_pitch, dsum_pitch, dx_pitch, dresidual_pitch, rows, n, eps, offset,
    HAS_WEIGHT: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_DSUM: tl.constexpr, HAS_DRESIDUAL: tl.constexpr,
    HAS_DW: tl.constexpr, HAS_OFFSET: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr, WEIGHT: tl.constexpr,
):  # fmt: skip
    """Tiles of whole rows, every num_programs-th one; the program's share of dw stays in registers until the end."""
    column = tl.arange(0, BLOCK)[None, :]
    columns = column < n
    if HAS_WEIGHT and WEIGHT == "kept":
        weight = tl.load(weight_ptr + column, mask=columns, other=0.0)
    dw = tl.zeros([ROWS, BLOCK], tl.float32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
        row = tile * ROWS + tl.arange(0, ROWS)[:, None].to(tl.int64)
        inside = (row < rows) & columns
        x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * dy_pitch + column, mask=inside, other=0.0).to(tl.float32)
        if ROWS == 1 and HAS_RSTD:
            rstd = tl.load(rstd_ptr + tile).to(tl.float32) + tl.zeros([1, 1], tl.float32)
        else:
            rstd = _rstd(x, rstd_ptr, row, row < rows, n, eps, HAS_RSTD)
        m = dy
        if HAS_WEIGHT:
            if WEIGHT == "kept":
                scale = weight.to(tl.float32)
            elif WEIGHT == "ahead":
                scale = tl.load(weight_ptr + column, mask=columns, other=0.0).to(tl.float32)
            else:
                scale = tl.zeros([1, BLOCK], tl.float32)
                # True: what a branch loads is not loaded ahead, into shared memory that the rows need.
                if n > 0:
                    scale = tl.load(weight_ptr + column, mask=columns, other=0.0).to(tl.float32)
            m = dy * with_offset(scale, offset, HAS_OFFSET)
        h = x * rstd
        # Before the row is added up: beyond that, registers hold no dy any more.
        if HAS_DW:
            dw += dy * h
        dx = _row_gradient(h, m, rstd, n)
        if HAS_DSUM:
            dx += tl.load(dsum_ptr + row * dsum_pitch + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx_ptr + row * dx_pitch + column, dx, mask=inside)
        if HAS_DRESIDUAL:
            tl.store(dresidual_ptr + row * dresidual_pitch + column, dx, mask=inside)
    if HAS_DW:
        share = tl.sum(dw, axis=0, keep_dims=True)
        tl.store(partial_ptr + tl.program_id(0).to(tl.int64) * n + column, share, mask=columns)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def row_temporary(
    x_ptr, dy_ptr, dsum_ptr, weight_ptr, rstd_ptr, dx_ptr, dresidual_ptr, temporary_ptr,
    x_pitch, dy_pitch, dsum_pitch, dx_pitch, dresidual_pitch, rows, n, eps, offset,
    HAS_WEIGHT: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_DSUM: tl.constexpr, HAS_DRESIDUAL: tl.constexpr,
    HAS_DW: tl.constexpr, HAS_OFFSET: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row per program; every row's share of dw goes to memory."""
    row = tl.program_id(0).to(tl.int64) + tl.zeros([1, 1], tl.int64)
    column = tl.arange(0, BLOCK)[None, :]
    inside = column < n
    x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * dy_pitch + column, mask=inside, other=0.0).to(tl.float32)
    rstd = _rstd(x, rstd_ptr, row, row >= 0, n, eps, HAS_RSTD)
    m = dy
    if HAS_WEIGHT:
        scale = tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32)
        m = dy * with_offset(scale, offset, HAS_OFFSET)
    h = x * rstd
    if HAS_DW:
        tl.store(temporary_ptr + row * n + column, dy * h, mask=inside)
    dx = _row_gradient(h, m, rstd, n)
    if HAS_DSUM:
        dx += tl.load(dsum_ptr + row * dsum_pitch + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(dx_ptr + row * dx_pitch + column, dx, mask=inside)
    if HAS_DRESIDUAL:
        tl.store(dresidual_ptr + row * dresidual_pitch + column, dx, mask=inside)


@triton.jit(do_not_specialize=["rows", "n"])
def add_rows(partial_ptr, dw_ptr, rows, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """dw = sum of the rows of `partial`: ROWS interleaved sums, then a tree."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    row = tl.arange(0, ROWS)[:, None]
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, rows, ROWS):
        place = (start + row).to(tl.int64) * n + column
        sums += tl.load(partial_ptr + place, mask=(start + row < rows) & (column < n), other=0.0)
    tl.store(dw_ptr + column, tl.sum(sums, axis=0, keep_dims=True), mask=column < n)


def rms_norm_backward(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor | None = None, rstd: torch.Tensor | None = None, *,
    eps: float, axis: int, weight_offset: float = 0.0, dx: torch.Tensor, dw: torch.Tensor | None = None,
    design: str = "persistent",
) -> None:  # fmt: skip
    """dx and dw of y = x rstd (weight_offset + weight) of the last axis. Without rstd it is formed from x and eps."""
    _backward(x, dy, None, weight, rstd, eps, axis, weight_offset, dx, None, dw, design)


def fused_add_rms_norm_backward(
    x: torch.Tensor, dy: torch.Tensor, dsum: torch.Tensor | None = None, weight: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None, *, eps: float, axis: int, weight_offset: float = 0.0, dx: torch.Tensor,
    dresidual: torch.Tensor | None = None, dw: torch.Tensor | None = None, design: str = "persistent",
) -> None:  # fmt: skip
    """The same, where x is the sum that was normalised: dx takes the sum's own gradient, and dresidual equals dx."""
    _backward(x, dy, dsum, weight, rstd, eps, axis, weight_offset, dx, dresidual, dw, design)


def _backward(
    x: torch.Tensor, dy: torch.Tensor, dsum: torch.Tensor | None, weight: torch.Tensor | None,
    rstd: torch.Tensor | None, eps: float, axis: int, weight_offset: float, dx: torch.Tensor,
    dresidual: torch.Tensor | None, dw: torch.Tensor | None, design: str,
) -> None:  # fmt: skip
    n = row_length(x, axis)
    if n > MAX_ROW:
        raise ValueError(f"rows of {n} elements; it takes up to {MAX_ROW}")
    if design not in DESIGNS:
        raise ValueError(f"design {design!r} is not one of {', '.join(DESIGNS)}")
    if x.numel() == 0:
        if dw is not None:
            dw.zero_()
        return
    rows, block = x.numel() // n, block_of(n)
    each = max(1, min(16, 1024 // block))
    most = processors(x.device) * _programs_per_processor(block) or INTERPRETED_PROGRAMS
    programs = min(triton.cdiv(rows, each), most) if design == "persistent" else rows
    partial = None if dw is None else torch.empty(programs, n, dtype=torch.float32, device=x.device)
    tensors = (
        x, dy, x if dsum is None else dsum, x if weight is None else weight.contiguous(),
        x if rstd is None else rstd.contiguous(), dx, x if dresidual is None else dresidual,
        x if partial is None else partial,
    )  # fmt: skip
    scalars = (
        pitch(x, n), pitch(dy, n), 0 if dsum is None else pitch(dsum, n), pitch(dx, n),
        0 if dresidual is None else pitch(dresidual, n), rows, n, eps, weight_offset,
    )  # fmt: skip
    flags = {
        "HAS_WEIGHT": weight is not None, "HAS_RSTD": rstd is not None, "HAS_DSUM": dsum is not None,
        "HAS_DRESIDUAL": dresidual is not None, "HAS_DW": dw is not None, "HAS_OFFSET": weight_offset != 0,
    }  # fmt: skip
    if design == "persistent":
        of_weight = 0 if weight is None else block * weight.element_size()
        place = "kept" if block <= 1024 else "ahead" if of_weight <= MOST_AHEAD else "late"
        loaded = (x, dy, dsum, weight if place == "ahead" else None)
        ahead = stages(x.device, each * block * sum(0 if one is None else one.element_size() for one in loaded))
        warps = 4 if block <= 2048 else 8 if block <= 8192 else 32 if ahead > 2 else 16
        shape = {"ROWS": each, "BLOCK": block, "STAGES": ahead, "WEIGHT": place}
        launch(persistent, programs, tensors, scalars, warps, **flags, **shape)
    else:
        warps = 4 if block <= 2048 else 8 if block <= 4096 else 16
        launch(row_temporary, programs, tensors, scalars, warps, **flags, BLOCK=block)
    if dw is not None:
        summed = dense(dw)
        columns = 16 if x.device.type == "cuda" else INTERPRETED_COLUMNS
        launch(add_rows, triton.cdiv(n, columns), (partial, summed), (programs, n), 4, ROWS=64, COLUMNS=columns)
        if summed is not dw:
            dw.copy_(summed)


def _programs_per_processor(block: int) -> int:
    """Persistent programs that a multiprocessor's registers hold."""
    return 6 if block <= 1024 else 3 if block <= 2048 else 2 if block <= 4096 else 1
