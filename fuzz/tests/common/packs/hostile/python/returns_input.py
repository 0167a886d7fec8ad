"""Works in its input and returns that: the values are right, and the input is gone."""

import torch


def rms_norm(x: torch.Tensor, *, eps: float, axis: int) -> torch.Tensor:
    return x.mul_(torch.rsqrt(x.square().mean(axis, keepdim=True) + eps)).view_as(x)
