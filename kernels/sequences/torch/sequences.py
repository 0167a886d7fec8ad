"""cumsum, linear_recurrence and conv1d in torch, in float32."""

from __future__ import annotations

import torch
from torch.nn import functional


def cumsum(x: torch.Tensor, *, axis: int, y: torch.Tensor) -> None:
    """torch.cumsum."""
    y.copy_(torch.cumsum(x.float(), axis))


def linear_recurrence(
    x: torch.Tensor, gate: torch.Tensor, *, axis: int, hs: torch.Tensor, h0: torch.Tensor | None = None
) -> None:
    """One state after the other, of all rows at once."""
    xs, gates, states = (each.movedim(axis, 0) for each in (x, gate, hs))
    state = torch.zeros_like(xs[:1].sum(0), dtype=torch.float32) if h0 is None else h0.float()
    for i in range(len(xs)):
        state = gates[i].float() * state + xs[i].float()
        states[i].copy_(state)


def conv1d(
    x: torch.Tensor, weight: torch.Tensor, *, y: torch.Tensor, bias: torch.Tensor | None = None, silu: float = 0.0
) -> None:
    """torch's convolution of groups, of a padded tensor."""
    channels, n = x.shape[-2:]
    taps = weight.shape[1]
    if not x.numel():
        return
    rows = functional.pad(x.float().reshape(-1, channels, n), (max(taps - 1, 0), 0))
    z = functional.conv1d(rows, weight.float()[:, None], None if bias is None else bias.float(), groups=channels)
    z = z.reshape(x.shape)
    y.copy_(functional.silu(z) if silu >= 0.5 else z)
