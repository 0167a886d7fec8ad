"""Sums, means, greatest elements, variances and logsumexp of rows in torch, and their gradients: in float32, or by its
own functions."""

from __future__ import annotations

import torch


def row_sum(x: torch.Tensor, *, axis: int, y: torch.Tensor) -> None:
    """torch.sum in float32."""
    y.copy_(x.float().sum(axis))


def row_mean(x: torch.Tensor, *, axis: int, y: torch.Tensor) -> None:
    """torch.mean in float32."""
    y.copy_(x.float().mean(axis))


def row_max(x: torch.Tensor, *, axis: int, y: torch.Tensor) -> None:
    """torch.amax."""
    if y.numel():
        y.copy_(x.amax(axis))


def row_var(x: torch.Tensor, *, axis: int, correction: float, y: torch.Tensor) -> None:
    """The mean first, then the squares of what lies beside it."""
    wide = x.float()
    centred = wide - wide.mean(axis, keepdim=True)
    y.copy_((centred * centred).sum(axis) / (x.shape[axis] - correction))


def native_row_var(x: torch.Tensor, *, axis: int, correction: float, y: torch.Tensor) -> None:
    """torch.var."""
    y.copy_(torch.var(x.float(), axis, correction=correction))


def logsumexp(x: torch.Tensor, *, axis: int, y: torch.Tensor) -> None:
    """The greatest element first, then the exponentials."""
    wide = x.float()
    if y.numel():
        most = wide.amax(axis, keepdim=True)
        y.copy_(torch.log(torch.exp(wide - most).sum(axis)) + most.squeeze(axis))


def row_sum_backward(x: torch.Tensor, dy: torch.Tensor, *, axis: int, dx: torch.Tensor) -> None:
    """The same at each element."""
    dx.copy_(dy.unsqueeze(axis).expand_as(x))


def row_mean_backward(x: torch.Tensor, dy: torch.Tensor, *, axis: int, dx: torch.Tensor) -> None:
    """A share at each element."""
    if x.numel():
        dx.copy_((dy.float() / x.shape[axis]).unsqueeze(axis).expand_as(x))


def row_max_backward(x: torch.Tensor, dy: torch.Tensor, *, axis: int, of_ties: float = 0.0, dx: torch.Tensor) -> None:
    """A mask of the greatest elements, of which one alone may count."""
    if x.numel():
        most, worth = x.amax(axis, keepdim=True), dy.float().unsqueeze(axis)
        counts = x == most
        if of_ties == 1.0:
            counts = counts & (counts.cumsum(axis) == 1)
        elif of_ties == 2.0:
            counts = counts & (counts.flip(axis).cumsum(axis).flip(axis) == 1)
        share = worth / counts.sum(axis, keepdim=True) if of_ties == 0.0 else worth
        dx.copy_(torch.where(torch.isnan(most), torch.nan, torch.where(counts, share, 0.0)))


def row_var_backward(x: torch.Tensor, dy: torch.Tensor, *, axis: int, correction: float, dx: torch.Tensor) -> None:
    """The mean first, then what lies beside it."""
    wide = x.float()
    factor = 2.0 * dy.float() / (x.shape[axis] - correction)
    dx.copy_(factor.unsqueeze(axis) * (wide - wide.mean(axis, keepdim=True)))


def logsumexp_backward(
    x: torch.Tensor, dy: torch.Tensor, y: torch.Tensor | None = None, *, axis: int, dx: torch.Tensor
) -> None:
    """The exponentials of what is left without the logarithm, which is given or formed again."""
    if x.numel():
        wide = x.float()
        if y is None:
            most = wide.amax(axis)
            known = torch.log(torch.exp(wide - most.unsqueeze(axis)).sum(axis)) + most
        else:
            known = y.float()
        dx.copy_(dy.float().unsqueeze(axis) * torch.exp(wide - known.unsqueeze(axis)))
