"""layer_norm in Triton, and its gradients by programs that stay.

Rows lie one pitch apart; their elements are neighbours. All arithmetic is float32, with one cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .rows import INTERPRETED_PROGRAMS, block_of, launch, pitch, processors, row_length, warps_of

MAX_ROW = 16384
"""Registers hold a row of at most this many elements."""
PROGRAMS = 3
"""Persistent programs for each multiprocessor."""


@triton.jit
def _mean(values, n):
    return tl.div_rn(tl.sum(values, axis=0, keep_dims=True), tl.zeros([1], tl.float32) + n)


@triton.jit
def _rstd(centred, n, eps):
    # The approximate root flushes subnormal numbers to zero.
    return tl.div_rn(tl.full([1], 1.0, tl.float32), tl.sqrt_rn(_mean(centred * centred, n) + eps))


@triton.jit(do_not_specialize=("mean_ptr", "rstd_ptr", "eps"))
def forward(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, x_pitch, y_pitch, n, eps,
    HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_MEAN: tl.constexpr, HAS_RSTD: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One row in registers."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < n
    x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0).to(tl.float32)
    mean = _mean(x, n)
    # Beyond the row are zeros, which lie beside the mean.
    centred = tl.where(inside, x - mean, 0.0)
    rstd = _rstd(centred, n, eps)
    y = centred * rstd
    if HAS_WEIGHT:
        y = y * tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        y = y + tl.load(bias_ptr + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_pitch + column, y, mask=inside)
    one = row + tl.arange(0, 1)
    if HAS_MEAN:
        tl.store(mean_ptr + one, mean)
    if HAS_RSTD:
        tl.store(rstd_ptr + one, rstd)


@triton.jit(do_not_specialize=("mean_ptr", "rstd_ptr", "rows", "eps"))
def persistent_backward(
    x_ptr, dy_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, x_pitch, dy_pitch, dx_pitch, rows, n, eps,
    HAS_WEIGHT: tl.constexpr, HAS_MEAN: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_DW: tl.constexpr,
    HAS_DB: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th row; the program's share of dw and db stays in registers until the end."""
    column = tl.arange(0, BLOCK)
    inside = column < n
    dw = tl.zeros([BLOCK], tl.float32)
    db = tl.zeros([BLOCK], tl.float32)
    for number in range(tl.program_id(0), rows, tl.num_programs(0)):
        row = number + tl.zeros([1], tl.int64)
        x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * dy_pitch + column, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row).to(tl.float32) if HAS_MEAN else _mean(x, n)
        centred = tl.where(inside, x - mean, 0.0)
        rstd = tl.load(rstd_ptr + row).to(tl.float32) if HAS_RSTD else _rstd(centred, n, eps)
        # Beyond the row too an infinite rstd meets zeros.
        h, g = tl.where(inside, centred * rstd, 0.0), dy
        if HAS_WEIGHT:
            g = dy * tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32)
        dw += dy * h
        db += dy
        tl.store(dx_ptr + row * dx_pitch + column, rstd * (g - _mean(g, n) - h * _mean(g * h, n)), mask=inside)
    share = tl.program_id(0).to(tl.int64) * n + column
    if HAS_DW:
        tl.store(dw_ptr + share, dw, mask=inside)
    if HAS_DB:
        tl.store(db_ptr + share, db, mask=inside)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, *, eps: float, axis: int,
    y: torch.Tensor, mean: torch.Tensor | None = None, rstd: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """y = (x - mean) rstd weight + bias along the last axis."""
    n = _kept_length(x, axis)
    if x.numel() == 0:
        return
    optional = {"HAS_WEIGHT": weight, "HAS_BIAS": bias, "HAS_MEAN": mean, "HAS_RSTD": rstd}
    launch(
        forward, x.numel() // n, (x, _or(weight, x), _or(bias, x), y, _or(mean, x), _or(rstd, x)),
        (pitch(x, n), pitch(y, n), n, eps), warps_of(block_of(n)),
        **{name: each is not None for name, each in optional.items()}, BLOCK=block_of(n),
    )  # fmt: skip


def layer_norm_backward(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor | None = None, mean: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None, *, eps: float, axis: int, dx: torch.Tensor, dw: torch.Tensor | None = None,
    db: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """dx, and dw and db as sums of what each program had, in an order that the shape and the device fix."""
    n = _kept_length(x, axis)
    wanted = [each for each in (dw, db) if each is not None]
    if x.numel() == 0:
        for each in wanted:
            each.zero_()
        return
    rows = x.numel() // n
    programs = min(rows, PROGRAMS * processors(x.device) or INTERPRETED_PROGRAMS)
    shares = [torch.empty(programs, n, dtype=torch.float32, device=x.device) for _ in (dw, db)]
    optional = {"HAS_WEIGHT": weight, "HAS_MEAN": mean, "HAS_RSTD": rstd, "HAS_DW": dw, "HAS_DB": db}
    launch(
        persistent_backward, programs, (x, dy, _or(weight, x), _or(mean, x), _or(rstd, x), dx, *shares),
        (pitch(x, n), pitch(dy, n), pitch(dx, n), rows, n, eps), warps_of(block_of(n)),
        **{name: each is not None for name, each in optional.items()}, BLOCK=block_of(n),
    )  # fmt: skip
    for each, share in zip((dw, db), shares, strict=True):
        if each is not None:
            each.copy_(share.sum(0))


def _kept_length(x: torch.Tensor, axis: int) -> int:
    n = row_length(x, axis)
    if n > MAX_ROW:
        raise ValueError(f"rows of {n} elements; it takes up to {MAX_ROW}")
    return n


def _or(tensor: torch.Tensor | None, other: torch.Tensor) -> torch.Tensor:
    """What stands in the place of a tensor that is absent, and is not touched."""
    return other if tensor is None else tensor
