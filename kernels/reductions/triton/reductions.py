"""Sums, means, greatest elements, variances and logsumexp of rows in Triton: of a row that registers hold.

Rows lie one pitch apart; their elements are neighbours. All arithmetic is float32, with one cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

MAX_ROW = 16384
"""Registers hold a row of at most this many elements."""
ROWS = ("x_ptr", "y_ptr", "x_pitch")
"""The compiler is told nothing about these: it would lay the rows that begin at a multiple of 16 bytes out over the
threads in another way, and add a row in another order than the same row of a smaller batch."""


@triton.jit
def _greatest(x):
    # The maximum of a reduction passes over NaN.
    nan = tl.max((x != x).to(tl.int32), axis=0, keep_dims=True)
    return tl.where(nan > 0, float("nan"), tl.max(x, axis=0, keep_dims=True))


@triton.jit(do_not_specialize=ROWS)
def of_row(x_ptr, y_ptr, x_pitch, n, correction, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """One number of one row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < n
    beyond = float("-inf") if KIND == "max" or KIND == "logsumexp" else 0.0
    x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=beyond).to(tl.float32)
    if KIND == "max":
        y = _greatest(x)
    elif KIND == "logsumexp":
        most = _greatest(x)
        y = tl.log(tl.sum(tl.where(inside, tl.exp(x - most), 0.0), axis=0, keep_dims=True)) + most
    else:
        y = tl.sum(x, axis=0, keep_dims=True)
        if KIND == "mean" or KIND == "var":
            y = tl.div_rn(y, tl.zeros([1], tl.float32) + n)
        if KIND == "var":
            centred = tl.where(inside, x - y, 0.0)
            squares = tl.sum(centred * centred, axis=0, keep_dims=True)
            y = tl.div_rn(squares, tl.zeros([1], tl.float32) + n - correction)
    tl.store(y_ptr + row + tl.arange(0, 1), y)


def row_sum(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """Sums."""
    _reduce(x, y, "sum")


def row_mean(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """Means."""
    _reduce(x, y, "mean")


def row_max(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """Greatest elements."""
    _reduce(x, y, "max")


def row_var(x: torch.Tensor, *, correction: float, y: torch.Tensor) -> None:
    """Variances."""
    _reduce(x, y, "var", correction)


def logsumexp(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """Logarithms of sums of exponentials."""
    _reduce(x, y, "logsumexp")


def _reduce(x: torch.Tensor, y: torch.Tensor, kind: str, correction: float = 0.0) -> None:
    n = x.shape[-1]
    if x.numel():
        rows = x.view(-1, n)
        of_row[(len(rows),)](rows, y, rows.stride(0), n, correction, kind, triton.next_power_of_2(n))
