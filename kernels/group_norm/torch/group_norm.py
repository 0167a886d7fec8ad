"""group_norm and its gradients in torch: in float32, or by its own function."""

from __future__ import annotations

import torch


def group_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    eps: float,
    y: torch.Tensor,
    mean: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None,
) -> None:
    """Elementary operations in float32."""
    wide = x.float()
    centre = wide.mean((2, 3), keepdim=True)
    centred = wide - centre
    scale = 1.0 / torch.sqrt((centred * centred).mean((2, 3), keepdim=True) + eps)
    found = centred * scale
    if weight is not None:
        found = found * weight.float().unsqueeze(-1)
    if bias is not None:
        found = found + bias.float().unsqueeze(-1)
    y.copy_(found)
    for output, values in ((mean, centre), (rstd, scale)):
        if output is not None:
            output.copy_(values[:, :, 0, 0])


def native(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    eps: float,
    y: torch.Tensor,
) -> None:
    """torch.nn.functional.group_norm."""
    batch, groups, channels, places = x.shape
    flat = [None if each is None else each.reshape(-1) for each in (weight, bias)]
    found = torch.nn.functional.group_norm(x.reshape(batch, groups * channels, places), groups, *flat, eps)
    y.copy_(found.view(x.shape))


def group_norm_backward(
    x: torch.Tensor,
    dy: torch.Tensor,
    weight: torch.Tensor | None = None,
    mean: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None,
    *,
    eps: float,
    dx: torch.Tensor,
    dw: torch.Tensor | None = None,
    db: torch.Tensor | None = None,
) -> None:
    """Elementary operations in float32."""
    wide, slope = x.float(), dy.float()
    centred = wide - (wide.mean((2, 3)) if mean is None else mean)[:, :, None, None]
    if rstd is None:
        rstd = 1.0 / torch.sqrt((centred * centred).mean((2, 3)) + eps)
    scale = rstd[:, :, None, None]
    h = centred * scale
    if dw is not None:
        dw.copy_((slope * h).sum((0, 3)))
    if db is not None:
        db.copy_(slope.sum((0, 3)))
    g = slope if weight is None else slope * weight.float().unsqueeze(-1)
    dx.copy_(scale * (g - g.mean((2, 3), keepdim=True) - h * (g * h).mean((2, 3), keepdim=True)))
