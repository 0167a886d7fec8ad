"""scaled_matmul in torch: the product of int32, then the scales."""

from __future__ import annotations

import torch


def scaled_matmul(
    scale_a: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_b: torch.Tensor, *, axis: int, c: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """c = (a b) (scale_a scale_b) + bias."""
    count = torch.matmul(a.to(torch.int32), b.to(torch.int32))
    z = count.float() * (scale_a.float()[:, None] * scale_b.float()[None, :])
    c.copy_(z if bias is None else z + bias.float())
