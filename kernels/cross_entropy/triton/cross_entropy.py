"""cross_entropy and its gradient in Triton: rows of logits by blocks, as vocabularies are long.

Rows lie one pitch apart; their elements are neighbours. All arithmetic is float32, with one cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

IGNORED = tl.constexpr(-100)
BLOCK = 1024
"""A row is read in blocks of this many."""
ROWS = ("x_ptr", "dx_ptr", "lse_ptr", "x_pitch", "dx_pitch")
"""The compiler is told nothing about these: it would lay the rows that begin at a multiple of 16 bytes out over the
threads in another way, and add a row in another order than the same row of a smaller batch."""


@triton.jit
def _mass(x_row, n, BLOCK: tl.constexpr):
    """The greatest element, the sum of the exponentials beside it, scaled again whenever a greater one comes, and the
    sum of all elements."""
    greatest = tl.full([1], float("-inf"), tl.float32)
    mass = tl.zeros([1], tl.float32)
    summed = tl.zeros([1], tl.float32)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + column, mask=column < n, other=float("-inf")).to(tl.float32)
        greater = tl.maximum(greatest, tl.max(x, axis=0, keep_dims=True))
        # While all so far is minus infinity there is nothing to be scaled, and minus infinity less itself is NaN.
        shift = tl.where(greater == float("-inf"), 0.0, greater)
        mass = mass * tl.exp(greatest - shift) + tl.sum(tl.exp(x - shift), axis=0, keep_dims=True)
        summed += tl.sum(tl.where(column < n, x, 0.0), axis=0, keep_dims=True)
        greatest = greater
    return greatest, tl.where(mass == 0.0, float("nan"), mass), summed


@triton.jit
def losses(x_ptr, label_ptr, loss_ptr, lse_ptr, x_pitch, n, smoothing, z, BLOCK: tl.constexpr):
    """The loss of one row, and its lse."""
    row = tl.program_id(0).to(tl.int64)
    x_row, one = x_ptr + row * x_pitch, tl.arange(0, 1)
    greatest, mass, summed = _mass(x_row, n, BLOCK)
    lse = tl.log(mass) + greatest
    label = tl.load(label_ptr + row + one)
    loss = lse - tl.load(x_row + label, mask=label != IGNORED, other=0.0).to(tl.float32)
    if smoothing > 0:
        even = lse - tl.div_rn(summed, tl.zeros([1], tl.float32) + n)
        loss = (1.0 - smoothing) * loss + smoothing * even
    if z > 0:
        loss += z * (lse * lse)
    tl.store(loss_ptr + row + one, tl.where(label == IGNORED, 0.0, loss))
    tl.store(lse_ptr + row + one, lse)


@triton.jit(do_not_specialize=ROWS)
def gradients(
    x_ptr, label_ptr, dloss_ptr, lse_ptr, dx_ptr, x_pitch, dx_pitch, n, smoothing, z,
    GIVEN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of one row, which may be written where the row was."""
    row = tl.program_id(0).to(tl.int64)
    x_row, dx_row = x_ptr + row * x_pitch, dx_ptr + row * dx_pitch
    label, dloss = tl.load(label_ptr + row), tl.load(dloss_ptr + row).to(tl.float32)
    if GIVEN:
        lse = tl.load(lse_ptr + row + tl.arange(0, 1))
    else:
        most, mass, _ = _mass(x_row, n, BLOCK)
        lse = tl.log(mass) + most
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + column, mask=column < n, other=0.0).to(tl.float32)
        if GIVEN:
            slope = tl.exp(x - lse)
        else:
            beside = tl.exp(x - most)
            slope = tl.div_rn(beside, tl.zeros_like(x) + mass)
        if z > 0:
            slope += 2.0 * z * lse * slope
        if smoothing > 0:
            slope -= smoothing / n
        slope = tl.where(column == label, slope - (1.0 - smoothing), slope)
        tl.store(dx_row + column, tl.where(label == IGNORED, 0.0, dloss * slope), mask=column < n)


def cross_entropy(
    x: torch.Tensor,
    label: torch.Tensor,
    *,
    smoothing: float = 0.0,
    z: float = 0.0,
    fewest: float = 0.0,
    loss: torch.Tensor,
    lse: torch.Tensor | None = None,
    mean: torch.Tensor | None = None,
) -> None:
    """The losses of rows in float32, then their mean."""
    n = x.shape[-1]
    wide = torch.zeros(label.shape, device=x.device)
    if x.numel():
        rows, kept = x.view(-1, n), torch.empty_like(wide) if lse is None else lse
        losses[(len(rows),)](rows, label, wide, kept, rows.stride(0), n, smoothing, z, BLOCK)
    loss.copy_(wide)
    if mean is not None:
        count = (label != IGNORED.value).sum().float()
        mean.copy_(wide.sum() / count.clamp(min=fewest))


def cross_entropy_backward(
    x: torch.Tensor,
    label: torch.Tensor,
    dloss: torch.Tensor,
    lse: torch.Tensor | None = None,
    *,
    smoothing: float = 0.0,
    z: float = 0.0,
    dx: torch.Tensor,
) -> None:
    """Gradients by the logits, of the lse that is given, or is formed again."""
    if x.numel():
        n = x.shape[-1]
        rows, results = x.view(-1, n), dx.view(-1, n)
        gradients[(len(rows),)](
            rows, label, dloss, lse, results, rows.stride(0), results.stride(0), n, smoothing, z, lse is not None, BLOCK
        )
