"""Honest: four operations. The hostile kernels beside it compute by it, too."""

import torch


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    y.copy_(x * torch.rsqrt(x.square().mean(axis, keepdim=True) + eps))
