"""softmax and log_softmax in Triton: of a row that registers hold, and of a longer one by blocks.

Rows lie one pitch apart; their elements are neighbours. All arithmetic is float32, with one cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .rows import block_of, launch, pitch, row_length, warps_of

MAX_ROW = 16384
"""Registers hold a row of at most this many elements."""
BLOCK = 1024
"""A longer row is read in blocks of this many."""


@triton.jit
def _result(x, greatest, mass, LOGARITHM: tl.constexpr):
    shifted = x - greatest
    if LOGARITHM:
        # The greatest element is taken off first: added to the logarithm it would take its last bits away.
        return shifted - tl.log(mass)
    return tl.div_rn(tl.exp(shifted), tl.zeros_like(shifted) + mass)


@triton.jit
def whole_row(x_ptr, y_ptr, x_pitch, y_pitch, n, LOGARITHM: tl.constexpr, BLOCK: tl.constexpr):
    """One row in registers."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < n
    x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=float("-inf")).to(tl.float32)
    greatest = tl.max(x, axis=0)
    # Chosen, for where all is minus infinity what lies beyond the row is NaN too.
    mass = tl.sum(tl.where(inside, tl.exp(x - greatest), 0.0), axis=0)
    tl.store(y_ptr + row * y_pitch + column, _result(x, greatest, mass, LOGARITHM), mask=inside)


@triton.jit
def online(x_ptr, y_ptr, x_pitch, y_pitch, n, LOGARITHM: tl.constexpr, BLOCK: tl.constexpr):
    """One row by blocks: the sum of exponentials so far is scaled again whenever a greater element comes."""
    row = tl.program_id(0).to(tl.int64)
    x_row, y_row = x_ptr + row * x_pitch, y_ptr + row * y_pitch
    greatest = tl.full([1], float("-inf"), tl.float32)
    mass = tl.zeros([1], tl.float32)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + column, mask=column < n, other=float("-inf")).to(tl.float32)
        greater = tl.maximum(greatest, tl.max(x, axis=0, keep_dims=True))
        # While all so far is minus infinity there is nothing to be scaled, and minus infinity less itself is NaN.
        shift = tl.where(greater == float("-inf"), 0.0, greater)
        mass = mass * tl.exp(greatest - shift) + tl.sum(tl.exp(x - shift), axis=0, keep_dims=True)
        greatest = greater
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + column, mask=column < n, other=float("-inf")).to(tl.float32)
        tl.store(y_row + column, _result(x, greatest, mass, LOGARITHM), mask=column < n)


def softmax(x: torch.Tensor, *, axis: int, y: torch.Tensor, path: str = "") -> None:
    """Exponentials of the last axis, divided by their sum; `path` is 'whole_row' or 'online', or chosen."""
    _run(x, y, axis, path, logarithm=False)


def log_softmax(x: torch.Tensor, *, axis: int, y: torch.Tensor, path: str = "") -> None:
    """The logarithm of the same."""
    _run(x, y, axis, path, logarithm=True)


def _run(x: torch.Tensor, y: torch.Tensor, axis: int, path: str, *, logarithm: bool) -> None:
    n = row_length(x, axis)
    if path == "whole_row" and n > MAX_ROW:
        raise ValueError(f"rows of {n} elements; it takes up to {MAX_ROW}")
    if x.numel() == 0:
        return
    whole = path == "whole_row" or (not path and n <= MAX_ROW)
    kernel, block = (whole_row, block_of(n)) if whole else (online, BLOCK)
    scalars = (pitch(x, n), pitch(y, n), n)
    launch(kernel, x.numel() // n, (x, y), scalars, warps_of(block), LOGARITHM=logarithm, BLOCK=block)
