"""quantize_rows in torch."""

from __future__ import annotations

import torch


def quantize_rows(x: torch.Tensor, *, axis: int, of_zeros: float = 0.0, q: torch.Tensor, scale: torch.Tensor) -> None:
    """Whole numbers, to nearest even."""
    if x.numel():
        ratio = _scaled(x, axis, 127.0, of_zeros, scale)
        q.copy_(torch.nan_to_num(torch.round(ratio).clamp(-128.0, 127.0), nan=0.0))


def quantize_rows_e4m3(
    x: torch.Tensor, *, axis: int, of_zeros: float = 0.0, q: torch.Tensor, scale: torch.Tensor
) -> None:
    """Floats of 8 bits, cut off at the largest."""
    if x.numel():
        q.copy_(_scaled(x, axis, 448.0, of_zeros, scale).clamp(-448.0, 448.0).to(q.dtype))


def _scaled(x: torch.Tensor, axis: int, top: float, of_zeros: float, scale: torch.Tensor) -> torch.Tensor:
    """The elements of rows over their scales, which are written."""
    wide = x.float()
    most = wide.abs().amax(axis, keepdim=True)
    step = torch.where(most == 0.0, of_zeros, most / top)
    scale.copy_(step.squeeze(axis))
    return torch.where(most == 0.0, 0.0, wide / step)
