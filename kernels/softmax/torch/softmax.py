"""softmax, log_softmax and their gradients in torch: composed in float32, and by torch's own functions."""

from __future__ import annotations

import torch


def softmax(x: torch.Tensor, *, axis: int, y: torch.Tensor) -> None:
    """Exponentials, divided by their sum."""
    e = torch.exp(_shifted(x, axis))
    y.copy_(e / e.sum(axis, keepdim=True))


def log_softmax(x: torch.Tensor, *, axis: int, y: torch.Tensor) -> None:
    """The shifted row less the logarithm of the sum of its exponentials."""
    shifted = _shifted(x, axis)
    y.copy_(shifted - torch.log(torch.exp(shifted).sum(axis, keepdim=True)))


def softmax_backward(y: torch.Tensor, dy: torch.Tensor, *, axis: int, dx: torch.Tensor) -> None:
    """dx = y (dy - sum(y dy))."""
    wide, given = y.float(), dy.float()
    dx.copy_(wide * (given - (wide * given).sum(axis, keepdim=True)))


def log_softmax_backward(y: torch.Tensor, dy: torch.Tensor, *, axis: int, dx: torch.Tensor) -> None:
    """dx = dy - exp(y) sum(dy)."""
    given = dy.float()
    dx.copy_(given - torch.exp(y.float()) * given.sum(axis, keepdim=True))


def native_softmax(x: torch.Tensor, *, axis: int, y: torch.Tensor) -> None:
    """torch.softmax."""
    y.copy_(torch.softmax(x, axis, dtype=y.dtype))


def native_log_softmax(x: torch.Tensor, *, axis: int, y: torch.Tensor) -> None:
    """torch.log_softmax."""
    y.copy_(torch.log_softmax(x, axis, dtype=y.dtype))


def native_softmax_backward(y: torch.Tensor, dy: torch.Tensor, *, axis: int, dx: torch.Tensor) -> None:
    """What autograd calls for torch.softmax."""
    dx.copy_(torch.ops.aten._softmax_backward_data(dy, y, axis, y.dtype))


def native_log_softmax_backward(y: torch.Tensor, dy: torch.Tensor, *, axis: int, dx: torch.Tensor) -> None:
    """What autograd calls for torch.log_softmax."""
    dx.copy_(torch.ops.aten._log_softmax_backward_data(dy, y, axis, y.dtype))


def _shifted(x: torch.Tensor, axis: int) -> torch.Tensor:
    wide = x.float()
    # torch has no maximum of rows without elements.
    return wide - wide.amax(axis, keepdim=True) if x.numel() else wide
