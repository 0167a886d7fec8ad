"""rms_norm as torch provides it."""

from __future__ import annotations

import torch


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float, axis: int, offset: float = 0.0
) -> torch.Tensor:
    """torch.nn.functional.rms_norm over the last axis."""
    if offset or axis not in (-1, x.ndim - 1):
        raise ValueError("only the last axis, without an offset")
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
