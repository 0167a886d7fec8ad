"""rms_norm in Triton by mode: few programs that stay, a program per row that reads it twice, or one that keeps it.

y = x rstd (weight_offset + weight), all in float32, with one cast at the end; rstd is stored where it is wanted.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .rms_norm import rms_norm as shared_by_rows
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
SHARED_BYTES = 2048
"""Rows of up to so many bytes share a program, unless a mode is asked for: on an H100, 4096 rows of 1024 elements in
bf16 took 7.3 us so, and 7.9 us with a program each."""
KEPT = 8192
"""Holding a row in registers is the quickest way up to this many elements."""
WAVES = 8
"""There are at most this many persistent programs per multiprocessor."""
MODES = ("static_persistent", "multi_wave_reload", "multi_wave_cached")


@triton.jit
def _scale(weight_ptr, column, inside, offset, HAS_OFFSET: tl.constexpr):
    return with_offset(tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32), offset, HAS_OFFSET)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def static_persistent(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_pitch, y_pitch, rows, n, eps, offset,
    HAS_WEIGHT: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_OFFSET: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Tiles of whole rows, every num_programs-th one; the weight is loaded once."""
    column = tl.arange(0, BLOCK)[None, :]
    columns = column < n
    if HAS_WEIGHT:
        scale = _scale(weight_ptr, column, columns, offset, HAS_OFFSET)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
        row = tile * ROWS + tl.arange(0, ROWS)[:, None].to(tl.int64)
        inside = (row < rows) & columns
        x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0).to(tl.float32)
        rstd = reciprocal_rms(tl.sum(x * x, axis=1, keep_dims=True), n, eps)
        if HAS_RSTD:
            tl.store(rstd_ptr + row, rstd, mask=row < rows)
        y = x * rstd
        if HAS_WEIGHT:
            y = y * scale
        tl.store(y_ptr + row * y_pitch + column, y, mask=inside)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def multi_wave_reload(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_pitch, y_pitch, rows, n, eps, offset,
    HAS_WEIGHT: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_OFFSET: tl.constexpr,
    TILE: tl.constexpr, WHOLE: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """One row by tiles, twice; no bounds are checked where the tiles end with the row."""
    row = tl.program_id(0).to(tl.int64)
    x_row, y_row = x_ptr + row * x_pitch, y_ptr + row * y_pitch
    squares = tl.zeros([TILE], tl.float32)
    for start in tl.range(0, n, TILE, loop_unroll_factor=UNROLL):
        column = start + tl.arange(0, TILE)
        inside = (column < n) | WHOLE
        # What is read again should stay in the cache, and what will not be should leave it.
        x = tl.load(x_row + column, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        squares += x * x
    rstd = reciprocal_rms(tl.sum(squares, axis=0, keep_dims=True), n, eps)
    if HAS_RSTD:
        tl.store(rstd_ptr + row + tl.arange(0, 1), rstd)
    for start in tl.range(0, n, TILE, loop_unroll_factor=UNROLL):
        column = start + tl.arange(0, TILE)
        inside = (column < n) | WHOLE
        y = tl.load(x_row + column, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32) * rstd
        if HAS_WEIGHT:
            y = y * _scale(weight_ptr, column, inside, offset, HAS_OFFSET)
        tl.store(y_row + column, y, mask=inside)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def multi_wave_cached(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_pitch, y_pitch, rows, n, eps, offset,
    HAS_WEIGHT: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_OFFSET: tl.constexpr,
    BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """One row in registers."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = (column < n) | WHOLE
    x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0).to(tl.float32)
    rstd = reciprocal_rms(tl.sum(x * x, axis=0, keep_dims=True), n, eps)
    if HAS_RSTD:
        tl.store(rstd_ptr + row + tl.arange(0, 1), rstd)
    y = x * rstd
    if HAS_WEIGHT:
        y = y * _scale(weight_ptr, column, inside, offset, HAS_OFFSET)
    tl.store(y_ptr + row * y_pitch + column, y, mask=inside)


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float, axis: int, weight_offset: float = 0.0,
    y: torch.Tensor, rstd: torch.Tensor | None = None, mode: str = "",
) -> None:  # fmt: skip
    """y = x / sqrt(mean(x^2) + eps) * (weight_offset + weight) of the last axis; `mode` is one of MODES, or chosen."""
    n = row_length(x, axis)
    if x.numel() == 0:
        return
    if not mode and n * x.element_size() <= SHARED_BYTES:
        shared_by_rows(x, weight, eps=eps, axis=axis, weight_offset=weight_offset, y=y, rstd=rstd, path="small")
        return
    rows, block = x.numel() // n, block_of(n)
    most = processors(x.device)
    mode = mode or _mode(rows, n, x.element_size(), most)
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is not one of {', '.join(MODES)}")
    if n > MAX_ROW and mode != "multi_wave_reload":
        raise ValueError(f"mode {mode}: rows of {n} elements; it takes up to {MAX_ROW}")
    stored = dense(rstd)
    tensors = (x, x if weight is None else weight.contiguous(), y, x if stored is None else stored)
    scalars = (pitch(x, n), pitch(y, n), rows, n, eps, weight_offset)
    flags = {"HAS_WEIGHT": weight is not None, "HAS_RSTD": rstd is not None, "HAS_OFFSET": weight_offset != 0}
    if mode == "static_persistent":
        each = max(1, min(16, 1024 // block))
        programs = min(most * WAVES or INTERPRETED_PROGRAMS, triton.cdiv(rows, each))
        ahead = stages(x.device, each * block * x.element_size())
        warps = 4 if block <= 4096 else 8 if block <= 8192 else 16
        launch(static_persistent, programs, tensors, scalars, warps, **flags, ROWS=each, BLOCK=block, STAGES=ahead)
    elif mode == "multi_wave_reload":
        tile, warps, unroll = _tile(n, block, x.element_size())
        launch(multi_wave_reload, rows, tensors, scalars, warps, **flags, TILE=tile, WHOLE=n % tile == 0, UNROLL=unroll)
    else:
        warps = 2 if n < 2048 else 4 if n < 4096 else 8 if n < 8192 else 16
        launch(multi_wave_cached, rows, tensors, scalars, warps, **flags, BLOCK=block, WHOLE=n == block)
    if rstd is not None and stored is not rstd:
        rstd.copy_(stored)


def _mode(rows: int, n: int, itemsize: int, most: int) -> str:
    """Rows of which registers hold several are kept there; some waves of middling rows gain from loading ahead."""
    if n > KEPT:
        return "multi_wave_reload"
    few = rows <= 64 * most and 4096 <= n * itemsize <= 8192
    return "static_persistent" if few and rows > 2 * most else "multi_wave_cached"


def _tile(n: int, block: int, itemsize: int) -> tuple[int, int, int]:
    """Tile, warps and unrolling: the longer the row, the fewer of them at once, or it is not in the cache any more."""
    if n < 4096:
        return min(1024, block), 4, 4
    if n < 8192:
        return 2048, 4 * itemsize, 1
    if KEPT < n <= 32768:
        return (2048, 16, 1) if itemsize == 2 else (4096, 32, 1)
    return 8192, 16, 1
