"""Sums, means, greatest elements, variances and logsumexp of rows in torch: in float32, or by its own functions."""

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
