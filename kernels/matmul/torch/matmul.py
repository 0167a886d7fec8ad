"""matmul in torch: by torch.matmul, and by addmm, whose accumulators may start as the bias."""

from __future__ import annotations

import torch


def matmul(
    a: torch.Tensor, b: torch.Tensor, *, axis: int, c: torch.Tensor, bias: torch.Tensor | None = None, relu: float = 0.0
) -> None:
    """torch.matmul, then the bias."""
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    z = torch.matmul(a.to(wide), b.to(wide))
    z = z if bias is None else z + bias.to(wide)
    c.copy_(_finished(z, relu))


def added(
    a: torch.Tensor, b: torch.Tensor, *, axis: int, c: torch.Tensor, bias: torch.Tensor, relu: float = 0.0
) -> None:
    """torch.addmm or torch.baddbmm."""
    k, n = b.shape[-2:]
    if a.ndim == 2:
        z = torch.addmm(bias, a, b)
    else:
        batch = a.shape[:-2].numel()
        whole = bias.expand(batch, a.shape[-2], n)
        z = torch.baddbmm(whole, a.reshape(batch, -1, k) if k else a.new_zeros(batch, a.shape[-2], 0),
                          b.reshape(batch, k, n)).reshape(c.shape)  # fmt: skip
    c.copy_(_finished(z, relu))


def _finished(z: torch.Tensor, relu: float) -> torch.Tensor:
    return torch.where(z <= 0, torch.zeros_like(z), z) if relu >= 0.5 else z
