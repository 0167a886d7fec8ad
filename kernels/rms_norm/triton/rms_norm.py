"""rms_norm in Triton, by the length of the row: many short rows at once, whole tiles, or vectors and a tail.

Rows are read where they lie, at any pitch; the elements of a row are neighbours. All arithmetic is float32, with one
cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .rows import UNSPECIALIZED, block_of, dense, launch, pitch, reciprocal_rms, row_length, with_offset

VECTOR_BYTES = 16
TILE = 2048
"""The smallest tile has this many elements."""
TILES = (8192, 4096, TILE)
"""The first of these sizes that divides the row is taken."""
SMALL_N = 2048
"""The longest row that may share a program has this many elements."""
SMALL_BYTES = 4096
"""The rows that share a program have at most this many bytes together."""
CACHED_N = 4096
"""Rows of up to this many 16-bit elements stay in registers between the two passes."""
PATHS = ("small", "tile_fast", "vector_generic")


@triton.jit(do_not_specialize=UNSPECIALIZED)
def small(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_pitch, y_pitch, rows, n, eps, offset,
    HAS_WEIGHT: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_OFFSET: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """ROWS whole rows in registers."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < n)
    x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0).to(tl.float32)
    rstd = reciprocal_rms(tl.sum(x * x, axis=1, keep_dims=True), n, eps)
    if HAS_RSTD:
        tl.store(rstd_ptr + row, rstd, mask=row < rows)
    y = x * rstd
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + column, mask=column < n, other=0.0).to(tl.float32)
        y = x * rstd * with_offset(weight, offset, HAS_OFFSET)
    tl.store(y_ptr + row * y_pitch + column, y, mask=inside)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def tile_fast(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_pitch, y_pitch, rows, n, eps, offset,
    HAS_WEIGHT: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_OFFSET: tl.constexpr,
    TILE: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """One row in whole tiles, without any mask: once for the squares, once more for the result."""
    row = tl.program_id(0).to(tl.int64)
    x_row, y_row = x_ptr + row * x_pitch, y_ptr + row * y_pitch
    column = tl.arange(0, TILE)
    squares = tl.zeros([TILE], tl.float32)
    for start in tl.range(0, n, TILE, loop_unroll_factor=UNROLL):
        # What is read again should stay in the cache, and what will not be should leave it.
        x = tl.load(x_row + start + column, eviction_policy="evict_last").to(tl.float32)
        squares += x * x
    rstd = reciprocal_rms(tl.sum(squares, axis=0, keep_dims=True), n, eps)
    if HAS_RSTD:
        tl.store(rstd_ptr + row + tl.arange(0, 1), rstd)
    for start in tl.range(0, n, TILE, loop_unroll_factor=UNROLL):
        x = tl.load(x_row + start + column, eviction_policy="evict_first").to(tl.float32)
        y = x * rstd
        if HAS_WEIGHT:
            weight = tl.load(weight_ptr + start + column).to(tl.float32)
            y = x * rstd * with_offset(weight, offset, HAS_OFFSET)
        tl.store(y_row + start + column, y)


@triton.jit(do_not_specialize=[*UNSPECIALIZED, "n"])
def vector_cached(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_pitch, y_pitch, rows, n, eps, offset,
    HAS_WEIGHT: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_OFFSET: tl.constexpr,
    LANES: tl.constexpr, VEC: tl.constexpr,
):  # fmt: skip
    """One row of any length: vectors of VEC elements, kept in registers, and a tail of fewer than VEC."""
    row = tl.program_id(0).to(tl.int64)
    x_row, y_row = x_ptr + row * x_pitch, y_ptr + row * y_pitch
    vectors = n // VEC
    vector = tl.arange(0, LANES)[:, None]
    column = vector * VEC + tl.arange(0, VEC)[None, :]
    last = vectors * VEC + tl.arange(0, VEC)
    # A mask that is one for all of a vector keeps its load one instruction.
    inside = vector < vectors
    x = tl.load(x_row + column, mask=inside, other=0.0).to(tl.float32)
    tail = tl.load(x_row + last, mask=last < n, other=0.0).to(tl.float32)
    squares = tl.sum(tl.sum(x * x, axis=1), axis=0, keep_dims=True)
    rstd = reciprocal_rms(squares + tl.sum(tail * tail, axis=0, keep_dims=True), n, eps)
    if HAS_RSTD:
        tl.store(rstd_ptr + row + tl.arange(0, 1), rstd)
    y, end = x * rstd, tail * rstd
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32)
        y = x * rstd * with_offset(weight, offset, HAS_OFFSET)
        weight = tl.load(weight_ptr + last, mask=last < n, other=0.0).to(tl.float32)
        end = tail * rstd * with_offset(weight, offset, HAS_OFFSET)
    tl.store(y_row + column, y, mask=inside)
    tl.store(y_row + last, end, mask=last < n)


@triton.jit(do_not_specialize=[*UNSPECIALIZED, "n"])
def vector_generic(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_pitch, y_pitch, rows, n, eps, offset,
    HAS_WEIGHT: tl.constexpr, HAS_RSTD: tl.constexpr, HAS_OFFSET: tl.constexpr,
    LANES: tl.constexpr, VEC: tl.constexpr,
):  # fmt: skip
    """The same for rows that registers do not hold: read twice, two vectors of each lane at a time."""
    row = tl.program_id(0).to(tl.int64)
    x_row, y_row = x_ptr + row * x_pitch, y_ptr + row * y_pitch
    vectors = n // VEC
    lane, place = tl.arange(0, LANES)[:, None], tl.arange(0, VEC)[None, :]
    last = vectors * VEC + tl.arange(0, VEC)
    even, odd = tl.zeros([LANES, VEC], tl.float32), tl.zeros([LANES, VEC], tl.float32)
    for start in range(0, vectors, 2 * LANES):
        first, second = start + lane, start + LANES + lane
        a = tl.load(x_row + first * VEC + place, mask=first < vectors, other=0.0).to(tl.float32)
        b = tl.load(x_row + second * VEC + place, mask=second < vectors, other=0.0).to(tl.float32)
        even += a * a
        odd += b * b
    tail = tl.load(x_row + last, mask=last < n, other=0.0).to(tl.float32)
    squares = tl.sum(tl.sum(even + odd, axis=1), axis=0, keep_dims=True)
    rstd = reciprocal_rms(squares + tl.sum(tail * tail, axis=0, keep_dims=True), n, eps)
    if HAS_RSTD:
        tl.store(rstd_ptr + row + tl.arange(0, 1), rstd)
    for start in range(0, vectors, 2 * LANES):
        first, second = start + lane, start + LANES + lane
        a = tl.load(x_row + first * VEC + place, mask=first < vectors, other=0.0).to(tl.float32)
        b = tl.load(x_row + second * VEC + place, mask=second < vectors, other=0.0).to(tl.float32)
        y, z = a * rstd, b * rstd
        if HAS_WEIGHT:
            v = tl.load(weight_ptr + first * VEC + place, mask=first < vectors, other=0.0).to(tl.float32)
            w = tl.load(weight_ptr + second * VEC + place, mask=second < vectors, other=0.0).to(tl.float32)
            y, z = a * rstd * with_offset(v, offset, HAS_OFFSET), b * rstd * with_offset(w, offset, HAS_OFFSET)
        tl.store(y_row + first * VEC + place, y, mask=first < vectors)
        tl.store(y_row + second * VEC + place, z, mask=second < vectors)
    end = tail * rstd
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + last, mask=last < n, other=0.0).to(tl.float32)
        end = tail * rstd * with_offset(weight, offset, HAS_OFFSET)
    tl.store(y_row + last, end, mask=last < n)


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float, axis: int, weight_offset: float = 0.0,
    y: torch.Tensor, rstd: torch.Tensor | None = None, path: str = "",
) -> None:  # fmt: skip
    """y = x / sqrt(mean(x^2) + eps) * (weight_offset + weight) of the last axis; `path` is one of PATHS, or chosen."""
    n = row_length(x, axis)
    if x.numel() == 0:
        return
    rows = x.numel() // n
    vector = VECTOR_BYTES // x.element_size()
    path = path or ("small" if n <= SMALL_N else "tile_fast" if n % TILE == 0 else "vector_generic")
    stored = dense(rstd)
    tensors = (x, x if weight is None else weight.contiguous(), y, x if stored is None else stored)
    scalars = (pitch(x, n), pitch(y, n), rows, n, eps, weight_offset)
    flags = {"HAS_WEIGHT": weight is not None, "HAS_RSTD": rstd is not None, "HAS_OFFSET": weight_offset != 0}
    if path == "small":
        if n > SMALL_N:
            raise ValueError(f"path small: rows of {n} elements; it takes up to {SMALL_N}")
        block = block_of(n)
        each = max(1, min(32, SMALL_BYTES // (block * x.element_size())))
        launch(small, triton.cdiv(rows, each), tensors, scalars, 4, **flags, ROWS=each, BLOCK=block)
    elif path == "tile_fast":
        if n % TILE:
            raise ValueError(f"path tile_fast: rows of {n} elements; it takes multiples of {TILE}")
        tile, warps, unroll = _tile(n, x.element_size())
        launch(tile_fast, rows, tensors, scalars, warps, **flags, TILE=tile, UNROLL=unroll)
    elif path == "vector_generic":
        if x.element_size() == 2 and n <= CACHED_N:
            lanes = triton.next_power_of_2(triton.cdiv(n, vector))
            launch(vector_cached, rows, tensors, scalars, 4, **flags, LANES=lanes, VEC=vector)
        else:
            lanes = 512 if x.element_size() == 2 else 256
            warps = 16 if n * x.element_size() > 16384 else 8
            launch(vector_generic, rows, tensors, scalars, warps, **flags, LANES=lanes, VEC=vector)
    else:
        raise ValueError(f"path {path!r} is not one of {', '.join(PATHS)}")
    if rstd is not None and stored is not rstd:
        rstd.copy_(stored)


def _tile(n: int, itemsize: int) -> tuple[int, int, int]:
    """Tile, warps and unrolling: the fewer rounds, the more is in flight, as long as the cache holds what is."""
    if 4096 <= n < 8192:
        return TILE, 4 * itemsize, 1
    if 8192 < n <= 32768:
        return (TILE, 16, 1) if itemsize == 2 or n % 4096 else (4096, 32, 1)
    tile = next(tile for tile in TILES if n % tile == 0)
    return tile, 16 if n >= 8192 else 8, 4 if n >= 4 * tile else 1
