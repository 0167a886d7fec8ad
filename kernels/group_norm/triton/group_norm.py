"""group_norm and its gradients in Triton: a group, whose elements are neighbours, by blocks.

Tensors are contiguous. All arithmetic is float32, with one cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024
"""A group is read in blocks of this many."""


@triton.jit
def statistics(x_ptr, mean_ptr, rstd_ptr, n, eps, MEAN: tl.constexpr, RSTD: tl.constexpr, BLOCK: tl.constexpr):
    """The mean of one group, and the reciprocal root of its variance: those that are not given."""
    group = tl.program_id(0).to(tl.int64)
    first, one = x_ptr + group * n, tl.arange(0, 1)
    count = tl.zeros([1], tl.float32) + n
    if MEAN:
        summed = tl.zeros([BLOCK], tl.float32)
        for start in range(0, n, BLOCK):
            place = start + tl.arange(0, BLOCK)
            summed += tl.load(first + place, mask=place < n, other=0.0).to(tl.float32)
        mean = tl.div_rn(tl.sum(summed, axis=0, keep_dims=True), count)
        tl.store(mean_ptr + group + one, mean)
    else:
        mean = tl.load(mean_ptr + group + one)
    if RSTD:
        squares = tl.zeros([BLOCK], tl.float32)
        for start in range(0, n, BLOCK):
            place = start + tl.arange(0, BLOCK)
            x = tl.load(first + place, mask=place < n, other=0.0).to(tl.float32)
            centred = tl.where(place < n, x - mean, 0.0)
            squares += centred * centred
        var = tl.div_rn(tl.sum(squares, axis=0, keep_dims=True), count)
        tl.store(rstd_ptr + group + one, tl.div_rn(tl.zeros([1], tl.float32) + 1.0, tl.sqrt_rn(var + eps)))


@triton.jit
def normalised(
    x_ptr, weight_ptr, bias_ptr, mean_ptr, rstd_ptr, y_ptr, groups, channels, places,
    WEIGHT: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of one group."""
    group = tl.program_id(0).to(tl.int64)
    n = channels * places
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    channel = (group % groups) * channels + place // places
    y = (tl.load(x_ptr + group * n + place, mask=inside, other=0.0).to(tl.float32) - tl.load(mean_ptr + group)) * (
        tl.load(rstd_ptr + group)
    )
    if WEIGHT:
        y = y * tl.load(weight_ptr + channel, mask=inside, other=0.0).to(tl.float32)
    if BIAS:
        y = y + tl.load(bias_ptr + channel, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + group * n + place, y, mask=inside)


@triton.jit
def of_elements(
    x_ptr, dy_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, groups, channels, places,
    WEIGHT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of one group, which may be written where x or dy was."""
    group = tl.program_id(0).to(tl.int64)
    n = channels * places
    mean, rstd = tl.load(mean_ptr + group), tl.load(rstd_ptr + group)
    summed = tl.zeros([BLOCK], tl.float32)
    dotted = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < n
        h = (tl.load(x_ptr + group * n + place, mask=inside, other=0.0).to(tl.float32) - mean) * rstd
        g = tl.load(dy_ptr + group * n + place, mask=inside, other=0.0).to(tl.float32)
        if WEIGHT:
            channel = (group % groups) * channels + place // places
            g = g * tl.load(weight_ptr + channel, mask=inside, other=0.0).to(tl.float32)
        summed += g
        dotted += tl.where(inside, g * h, 0.0)
    count = tl.zeros([1], tl.float32) + n
    mean_g = tl.div_rn(tl.sum(summed, axis=0, keep_dims=True), count)
    mean_gh = tl.div_rn(tl.sum(dotted, axis=0, keep_dims=True), count)
    for start in range(0, n, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < n
        h = (tl.load(x_ptr + group * n + place, mask=inside, other=0.0).to(tl.float32) - mean) * rstd
        g = tl.load(dy_ptr + group * n + place, mask=inside, other=0.0).to(tl.float32)
        if WEIGHT:
            channel = (group % groups) * channels + place // places
            g = g * tl.load(weight_ptr + channel, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx_ptr + group * n + place, rstd * (g - mean_g - h * mean_gh), mask=inside)


@triton.jit
def of_channels(
    x_ptr, dy_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, batch, groups, channels, places,
    DW: tl.constexpr, DB: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients by the weight and the bias of one channel."""
    channel = tl.program_id(0).to(tl.int64)
    dw = tl.zeros([BLOCK], tl.float32)
    db = tl.zeros([BLOCK], tl.float32)
    for b in range(batch):
        group = b * groups + channel // channels
        first = (b * groups * channels + channel) * places
        mean, rstd = tl.load(mean_ptr + group), tl.load(rstd_ptr + group)
        for start in range(0, places, BLOCK):
            place = start + tl.arange(0, BLOCK)
            inside = place < places
            h = (tl.load(x_ptr + first + place, mask=inside, other=0.0).to(tl.float32) - mean) * rstd
            dy = tl.load(dy_ptr + first + place, mask=inside, other=0.0).to(tl.float32)
            dw += tl.where(inside, dy * h, 0.0)
            db += dy
    if DW:
        tl.store(dw_ptr + channel + tl.arange(0, 1), tl.sum(dw, axis=0, keep_dims=True))
    if DB:
        tl.store(db_ptr + channel + tl.arange(0, 1), tl.sum(db, axis=0, keep_dims=True))


def group_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    eps: float,
    y: torch.Tensor,
    mean: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None,
) -> None:
    """The statistics of each group, then its elements."""
    batch, groups, channels, places = x.shape
    if batch * groups:
        mean, rstd = _statistics(x, mean, rstd, eps, given=False)
    if x.numel():
        grid = (batch * groups, triton.cdiv(channels * places, BLOCK))
        normalised[grid](
            x, weight, bias, mean, rstd, y, groups, channels, places, weight is not None, bias is not None, BLOCK
        )


def group_norm_backward(
    x: torch.Tensor,
    dy: torch.Tensor,
    weight: torch.Tensor | None = None,
    mean: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None,
    *,
    eps: float,
    dx: torch.Tensor,
    dw: torch.Tensor | None = None,
    db: torch.Tensor | None = None,
) -> None:
    """The statistics that are not given, gradients by channel, and then by element."""
    batch, groups, channels, places = x.shape
    if not x.numel():
        for gradient in (dw, db):
            if gradient is not None:
                gradient.zero_()
        return
    mean, rstd = _statistics(x, mean, rstd, eps, given=True)
    if dw is not None or db is not None:
        of_channels[(groups * channels,)](
            x, dy, mean, rstd, dw, db, batch, groups, channels, places, dw is not None, db is not None, BLOCK
        )
    of_elements[(batch * groups,)](x, dy, weight, mean, rstd, dx, groups, channels, places, weight is not None, BLOCK)


def _statistics(
    x: torch.Tensor, mean: torch.Tensor | None, rstd: torch.Tensor | None, eps: float, *, given: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and rstd of each group: as they are given, or written where they are to be, or into memory of their own."""
    batch, groups, channels, places = x.shape
    forms = [not given or each is None for each in (mean, rstd)]
    own = [torch.empty(batch, groups, device=x.device) if each is None else each for each in (mean, rstd)]
    statistics[(batch * groups,)](x, *own, channels * places, eps, *forms, BLOCK)
    return own[0], own[1]
