"""rms_norm as four torch operations, one after the other, in float32."""

from __future__ import annotations

import torch


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float, axis: int, offset: float = 0.0, y: torch.Tensor,
    rstd: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """y = x / sqrt(mean(x^2) + eps) * (offset + weight) along `axis`."""
    if x.numel() == 0:
        return
    wide = x.float()
    root = torch.rsqrt(wide.square().mean(axis, keepdim=True) + eps)
    result = wide * root
    if weight is not None:
        shape = [1] * x.ndim
        shape[axis] = -1
        # A zero offset is not added: it would take the sign from a weight of -0.
        scale = weight.float() + offset if offset else weight.float()
        result = result * scale.reshape(shape)
    if rstd is not None:
        rstd.copy_(root.squeeze(axis))
    y.copy_(result)
