"""rope of either pairing and its gradients in torch, composed in float32."""

from __future__ import annotations

import torch


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, y: torch.Tensor) -> None:
    """Halves: pieces 0 and 1 of those along the axis before the last."""
    _turn(x, cos, sin, y, (x[..., 0, :], x[..., 1, :]), (y[..., 0, :], y[..., 1, :]))


def rope_backward(dy: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, dx: torch.Tensor) -> None:
    """The same, turned back."""
    rope(dy, cos, -sin, y=dx)


def rope_interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, y: torch.Tensor) -> None:
    """Neighbours, along the last axis."""
    if x.numel():  # of no pieces there is no first one
        _turn(x, cos, sin, y, (x[..., 0, :, 0], x[..., 0, :, 1]), (y[..., 0, :, 0], y[..., 0, :, 1]))


def rope_interleaved_backward(dy: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, dx: torch.Tensor) -> None:
    """The same, turned back."""
    rope_interleaved(dy, cos, -sin, y=dx)


def _turn(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, y: torch.Tensor, halves: tuple[torch.Tensor, torch.Tensor],
    results: tuple[torch.Tensor, torch.Tensor],
) -> None:  # fmt: skip
    (a, b), c, s = (half.float() for half in halves), cos.float(), sin.float()
    both = a * c - b * s, b * c + a * s
    y.copy_(x)
    for result, turned in zip(results, both, strict=True):
        result.copy_(turned)
