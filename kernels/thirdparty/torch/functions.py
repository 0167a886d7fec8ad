"""torch.nn.functional as anybody calls it."""

from __future__ import annotations

import torch
from torch.nn import functional

Tensor = torch.Tensor


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float, y: Tensor) -> None:
    """Write rms_norm."""
    y.copy_(functional.rms_norm(x, x.shape[-1:], weight, eps))


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float, y: Tensor) -> None:
    """Write layer_norm."""
    y.copy_(functional.layer_norm(x, x.shape[-1:], weight, bias, eps))


def softmax(x: Tensor, *, y: Tensor) -> None:
    """Write softmax."""
    y.copy_(functional.softmax(x, -1))


def log_softmax(x: Tensor, *, y: Tensor) -> None:
    """Write log_softmax."""
    y.copy_(functional.log_softmax(x, -1))


def logsumexp(x: Tensor, *, y: Tensor) -> None:
    """Write logsumexp."""
    y.copy_(torch.logsumexp(x, -1))


def gelu(x: Tensor, *, y: Tensor) -> None:
    """Write gelu."""
    y.copy_(functional.gelu(x))


def gelu_tanh(x: Tensor, *, y: Tensor) -> None:
    """Write gelu of the tanh form."""
    y.copy_(functional.gelu(x, approximate="tanh"))


def cross_entropy(
    x: Tensor, label: Tensor, *, smoothing: float = 0.0, loss: Tensor, mean: Tensor | None = None
) -> None:
    """Write cross_entropy, of each row and the mean of all."""
    rows, labels = x.reshape(-1, x.shape[-1]), label.reshape(-1)
    for output, reduction in ((loss, "none"), (mean, "mean")):
        if output is not None:
            made = functional.cross_entropy(rows, labels, reduction=reduction, label_smoothing=smoothing)
            output.copy_(made.view(output.shape))


def attention(q: Tensor, k: Tensor, v: Tensor, *, softmax_scale: float, o: Tensor) -> None:
    """Write scaled_dot_product_attention; it chooses how."""
    b, g, h, i, d = q.shape
    keys, values = (each[:, :, None].expand(b, g, h, *each.shape[-2:]).flatten(1, 2) for each in (k, v))
    made = functional.scaled_dot_product_attention(q.reshape(b, g * h, i, d), keys, values, scale=softmax_scale)
    o.copy_(made.view(o.shape))
