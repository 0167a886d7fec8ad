"""dequantize_matmul in torch."""

from __future__ import annotations

import torch


def dequantize_matmul(x: torch.Tensor, q: torch.Tensor, scale: torch.Tensor, *, c: torch.Tensor) -> None:
    """The weights first, in float32, then torch.matmul."""
    w = q.float() * scale.float().unsqueeze(-1)
    c.copy_(torch.matmul(x.float().flatten(1), w.flatten(1).T))
