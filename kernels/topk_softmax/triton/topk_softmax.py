"""The largest probabilities of rows of logits in Triton: of a row that registers hold, one after the other.

Rows lie one pitch apart; their elements are neighbours. All arithmetic is float32, with one cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

MAX_ROW = 4096
"""Registers hold a row of at most this many elements."""
ROWS = ("x_ptr", "weights_ptr", "places_ptr", "x_pitch", "weights_pitch", "places_pitch")
"""The compiler is told nothing about these: it would lay the rows that begin at a multiple of 16 bytes out over the
threads in another way, and add a row in another order than the same row of a smaller batch."""


@triton.jit(do_not_specialize=ROWS)
def largest(
    x_ptr, weights_ptr, places_ptr, x_pitch, weights_pitch, places_pitch, n, k, renormalise,
    ALL: tl.constexpr, BLOCK: tl.constexpr, PICKS: tl.constexpr,
):  # fmt: skip
    """One row: with ALL the softmax is that of all its elements."""
    row = tl.program_id(0).to(tl.int64)
    column, number = tl.arange(0, BLOCK), tl.arange(0, PICKS)
    inside, taken = column < n, number < k
    x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=float("-inf")).to(tl.float32)
    left = inside
    values, places = tl.full([PICKS], float("-inf"), tl.float32), tl.zeros([PICKS], tl.int32)
    for j in range(k):
        most = tl.max(tl.where(left, x, float("-inf")), axis=0, keep_dims=True)
        # Of equal ones the first; of what is no number, whatever is left.
        place = tl.min(tl.where(left & (x == most), column, BLOCK), axis=0, keep_dims=True)
        place = tl.where(place == BLOCK, tl.min(tl.where(left, column, BLOCK), axis=0, keep_dims=True), place)
        values, places = tl.where(number == j, most, values), tl.where(number == j, place, places)
        left = left & (column != place)
    greatest = tl.max(values, axis=0, keep_dims=True)
    e = tl.where(taken, tl.exp(values - greatest), 0.0)
    if ALL:
        mass = tl.sum(tl.where(inside, tl.exp(x - greatest), 0.0), axis=0, keep_dims=True)
    else:
        # The maximum of a reduction passes over NaN.
        nan = tl.max((x != x).to(tl.int32), axis=0, keep_dims=True)
        mass = tl.where(nan > 0, float("nan"), tl.sum(e, axis=0, keep_dims=True))
    w = tl.div_rn(e, tl.zeros_like(e) + mass)
    if renormalise > 0:
        w = tl.div_rn(w, tl.zeros_like(w) + tl.sum(w, axis=0, keep_dims=True))
    tl.store(weights_ptr + row * weights_pitch + number, w, mask=taken)
    tl.store(places_ptr + row * places_pitch + number, places, mask=taken)


def topk_softmax(x: torch.Tensor, *, renormalise: float = 0.0, weight: torch.Tensor, expert: torch.Tensor) -> None:
    """The largest elements of the softmax."""
    _launch(x, weight, expert, renormalise, True)


def softmax_of_topk(x: torch.Tensor, *, weight: torch.Tensor, expert: torch.Tensor) -> None:
    """The softmax of the largest elements."""
    _launch(x, weight, expert, 0.0, False)


def _launch(x: torch.Tensor, weights: torch.Tensor, places: torch.Tensor, renormalise: float, whole: bool) -> None:
    if x.numel():
        n, k = x.shape[-1], weights.shape[-1]
        rows, found, at = x.view(-1, n), weights.view(-1, k), places.view(-1, k)
        largest[(len(rows),)](
            rows, found, at, rows.stride(0), found.stride(0), at.stride(0), n, k, renormalise,
            whole, triton.next_power_of_2(n), triton.next_power_of_2(k),
        )  # fmt: skip
