"""keras' functions on torch tensors."""

from __future__ import annotations

import keras
import torch

Tensor = torch.Tensor


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float, axis: int, y: Tensor) -> None:
    """Write keras.ops.rms_normalization, as its layer calls it."""
    y.copy_(keras.ops.rms_normalization(x, scale=weight, axis=axis, epsilon=eps).detach())


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float, axis: int, y: Tensor
) -> None:
    """Write keras.ops.layer_normalization, as its layer calls it."""
    y.copy_(keras.ops.layer_normalization(x, gamma=weight, beta=bias, axis=axis, epsilon=eps).detach())


def softmax(x: Tensor, *, axis: int, y: Tensor) -> None:
    """Write keras.ops.softmax."""
    y.copy_(keras.ops.softmax(x, axis=axis))


def log_softmax(x: Tensor, *, axis: int, y: Tensor) -> None:
    """Write keras.ops.log_softmax."""
    y.copy_(keras.ops.log_softmax(x, axis=axis))


def logsumexp(x: Tensor, *, axis: int, y: Tensor) -> None:
    """Write keras.ops.logsumexp."""
    y.copy_(keras.ops.logsumexp(x, axis=axis))
