"""Planted defects in the Triton kernels: masks, padding, rows between programs, partial sums, casts."""

from __future__ import annotations

from fuzz import Mutant

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_PLACE = (*_VALUE, "FAIL_MEMORY")
"""Reads at a wrong place are caught as one of these: what lies there is another element or poison."""
_LOST = ("FAIL_UNWRITTEN", *_VALUE)
"""An output that is not written is caught as one of these: in the memory of an input it still holds that input."""


def _planted(
    name: str, base: str, old: str, new: str, trigger: str, provenance: str, caught_as: tuple[str, ...] = _VALUE
) -> Mutant:
    return Mutant(name, base, ((old, new),), ("triton-*@interpret",), trigger, caught_as, provenance)


_TILES = "tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES)"
_TAIL_SQUARES = "even + odd, axis=1), axis=0, keep_dims=True)\n    rstd = reciprocal_rms(squares + {}, n, eps)"
_OF_TAIL = "tl.sum(tail * tail, axis=0, keep_dims=True)"
_CACHED_RSTD = "    rstd = reciprocal_rms(tl.sum(x * x, axis=0, keep_dims=True), n, eps)\n"
_NEAR = "    near = tl.load(x_ptr + tl.maximum(row - 1, 0) * x_pitch + column, mask=inside, other=0.0).to(tl.float32)\n"
_GRADIENT = "return rstd * (m - h * mean)"
_AGAIN = "            if HAS_SUM:\n                total = tl.load(sum_row"
_PARTIAL = "tl.program_id(0).to(tl.int64) * n + column, share, mask=columns"

FORWARD: tuple[Mutant, ...] = (
    _planted(
        "triton-small-mask-too-wide", "small", "inside = (row < rows) & (column < n)",
        "inside = (row < rows) & (column <= n)", "n that is no power of two, or shorter than a block",
        "off by one in a mask: the element behind the row is summed, and written", _PLACE,
    ),
    _planted(
        "triton-small-rstd-unwritten", "small", "if HAS_RSTD:\n        tl.store(rstd_ptr + row, rstd, mask",
        "if HAS_RSTD and ROWS == 1:\n        tl.store(rstd_ptr + row, rstd, mask",
        "a stored rstd of rows that share a program", "a path for short rows that forgets the optional output", _LOST,
    ),
    _planted(
        "triton-tail-not-summed", "vector-generic", _TAIL_SQUARES.format(_OF_TAIL), _TAIL_SQUARES.format("0.0"),
        "f32, n no multiple of 4", "scalar tail missing from the first of two passes",
    ),
    _planted(
        "triton-tail-unwritten", "vector-generic", "OFFSET)\n    tl.store(y_row + last, end, mask=last < n)",
        "OFFSET)\n    tl.store(y_row + last, end, mask=last < n - 1)",
        "f32, n no multiple of 4", "scalar tail missing from the second of two passes", _LOST,
    ),
    _planted(
        "triton-bounds-left-out", "multi-wave-reload", "WHOLE=n % tile == 0", "WHOLE=n % 8 == 0",
        "n a multiple of 8 but not of the tile", "bounds checks compiled out where tiles do not end with the row",
        _PLACE,
    ),
    _planted(
        "triton-divides-by-padded-length", "static-persistent",
        "reciprocal_rms(tl.sum(x * x, axis=1, keep_dims=True), n, eps)",
        "reciprocal_rms(tl.sum(x * x, axis=1, keep_dims=True), BLOCK, eps)",
        "n that is no power of two", "C3: the mean over the padded row",
    ),
    _planted(
        "triton-rstd-of-neighbour-row", "multi-wave-cached", _CACHED_RSTD,
        _NEAR + _CACHED_RSTD.replace("x * x", "near * near"),
        "rows of different size", "rstd of the neighbour row",
    ),
    _planted(
        "triton-last-tile-lost", "static-persistent", _TILES, _TILES.replace("tl.cdiv(rows, ROWS)", "rows // ROWS"),
        "short rows, whose number is no multiple of those of a program", "the last rows of a grid-stride loop", _LOST,
    ),
    _planted(
        "triton-one-wave-only", "static-persistent", _TILES,
        _TILES.replace("tl.cdiv(rows, ROWS)", "tl.minimum(tl.cdiv(rows, ROWS), tl.num_programs(0))"),
        "more tiles than programs", "persistent programs that do not stride: all that is beyond the first wave", _LOST,
    ),
)  # fmt: skip

ADD: tuple[Mutant, ...] = (
    _planted(
        "triton-add-rounds-the-sum", "add-whole-row-unrounded", "ROUNDED=not unrounded", "ROUNDED=True",
        "f16", "C1: two contracts of the sum, taken for one another",
    ),
    _planted(
        "triton-add-keeps-the-sum-wide", "add-whole-row", "ROUNDED=not unrounded", "ROUNDED=False",
        "f16", "C1, the other way round",
    ),
    _planted(
        "triton-add-llama-casts-late", "add-whole-row-llama", 'if CAST == "llama":', 'if CAST == "neither":',
        "f16, with a weight", "the cast after the weight where it must be before it",
    ),
    _planted(
        "triton-add-gemma-casts-early", "add-chunked", 'if CAST == "llama":', 'if CAST == "gemma":',
        "f16, with a weight", "the cast before the weight where it must be after it",
    ),
    _planted(
        "triton-add-forms-the-sum-again", "add-chunked", _AGAIN, _AGAIN.replace("HAS_SUM", "False"),
        "the sum stored over x or residual", "the second pass adds what the first has already replaced",
    ),
    _planted(
        "triton-add-last-rows-lost", "add-chunked", "range(tl.program_id(0), rows, tl.num_programs(0))",
        "range(tl.program_id(0), rows - rows % tl.num_programs(0), tl.num_programs(0))",
        "rows that are no multiple of the programs", "the last rows of a grid-stride loop", _LOST,
    ),
)  # fmt: skip

BACKWARD: tuple[Mutant, ...] = (
    _planted(
        "triton-backward-projection-dropped", "backward-persistent", _GRADIENT, "return rstd * m",
        "dy that is not orthogonal to x", "gradients that forget that the scale depends on x",
    ),
    _planted(
        "triton-backward-projection-halved", "backward-row-temporary", _GRADIENT,
        "return rstd * (m - h * mean * 0.5)",
        "dy that is not orthogonal to x", "the factor 2 of d(x^2) lost or counted twice",
    ),
    _planted(
        "triton-backward-dw-of-weighted-dy", "backward-persistent", "dw += dy * h", "dw += m * h",
        "dw with a weight that is not 1", "the gradient of the weight multiplied by the weight",
    ),
    _planted(
        "triton-backward-rstd-of-neighbour-row", "backward-row-temporary",
        "tl.load(rstd_ptr + row, mask=inside, other=0.0)",
        "tl.load(rstd_ptr + tl.maximum(row - 1, 0), mask=inside, other=0.0)",
        "rstd given, two rows or more", "rstd of the neighbour row, by an index that lags one row behind",
    ),
    _planted(
        "triton-backward-partial-row-unwritten", "backward-persistent", _PARTIAL,
        _PARTIAL + " & (tl.program_id(0) + tl.zeros_like(column) < 1)",
        "dw, two programs or more", "rows of the partial sums that nobody writes, in memory that is often zero",
    ),
    _planted(
        "triton-backward-dw-loses-last-partial", "backward-row-temporary", "mask=(start + row < rows) & (column < n)",
        "mask=(start + row < rows - 1) & (column < n)", "dw", "the last block of partial sums left out",
    ),
    _planted(
        "triton-backward-infinite-padding", "backward-persistent",
        "tl.where(inside, reciprocal_rms(tl.sum(x * x, axis=1, keep_dims=True), n, eps), 0.0)",
        "reciprocal_rms(tl.sum(x * x, axis=1, keep_dims=True), n, eps)",
        "dw with eps 0 and rows that do not fill the last tile", "padding rows of zeros, whose root is infinite",
    ),
    _planted(
        "triton-add-backward-dsum-left-out", "add-backward-row-temporary", "    if HAS_DSUM:\n        dx +=",
        "    if HAS_DSUM and HAS_DRESIDUAL:\n        dx +=",
        "the gradient of the residual sum without dresidual", "the gradient of the residual sum left out",
    ),
)  # fmt: skip

MUTANTS: tuple[Mutant, ...] = (*FORWARD, *ADD, *BACKWARD)
