"""int4_matmul in torch."""

from __future__ import annotations

import torch


def int4_matmul(
    x: torch.Tensor, q: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | None = None, *, c: torch.Tensor
) -> None:
    """The weights first, in float32, then torch.matmul."""
    byte = q.view(torch.uint8)
    codes = torch.stack((byte & 15, byte >> 4), -1).flatten(-2).float()
    zeros = 8.0 if zero_point is None else zero_point.float().unsqueeze(-1)
    w = (codes - zeros) * scale.float().unsqueeze(-1)
    c.copy_(torch.matmul(x.float().flatten(1), w.flatten(1).T))
