"""cross_entropy and its gradient in torch: in float32, or by its own function."""

from __future__ import annotations

import torch

IGNORED = -100


def cross_entropy(
    x: torch.Tensor,
    label: torch.Tensor,
    *,
    axis: int,
    smoothing: float = 0.0,
    z: float = 0.0,
    fewest: float = 0.0,
    loss: torch.Tensor,
    lse: torch.Tensor | None = None,
    mean: torch.Tensor | None = None,
) -> None:
    """The losses of rows in float32, then their mean."""
    wide, ignored = x.float(), label == IGNORED
    if label.numel():
        most = wide.amax(axis)
        found = torch.log(torch.exp(wide - most.unsqueeze(axis)).sum(axis)) + most
        losses = found - _picked(wide, label, axis)
        if smoothing:
            losses = (1.0 - smoothing) * losses + smoothing * (found - wide.mean(axis))
        if z:
            losses = losses + z * (found * found)
        losses = torch.where(ignored, 0.0, losses)
    else:
        found = losses = torch.zeros(label.shape)
    loss.copy_(losses)
    if lse is not None:
        lse.copy_(found)
    if mean is not None:
        mean.copy_(losses.sum() / (~ignored).sum().float().clamp(min=fewest))


def native(
    x: torch.Tensor,
    label: torch.Tensor,
    *,
    axis: int,
    smoothing: float = 0.0,
    loss: torch.Tensor,
    mean: torch.Tensor | None = None,
) -> None:
    """torch.nn.functional.cross_entropy."""
    rows, labels = x.movedim(axis, -1).reshape(-1, x.shape[axis]), label.reshape(-1).long()
    for output, reduction in ((loss, "none"), (mean, "mean")):
        if output is not None:
            try:
                found = torch.nn.functional.cross_entropy(rows, labels, reduction=reduction, label_smoothing=smoothing)
            except IndexError as error:
                raise ValueError(f"a label is no class: {error}") from error
            output.copy_(found.view(output.shape))


def cross_entropy_backward(
    x: torch.Tensor,
    label: torch.Tensor,
    dloss: torch.Tensor,
    lse: torch.Tensor | None = None,
    *,
    axis: int,
    smoothing: float = 0.0,
    z: float = 0.0,
    dx: torch.Tensor,
) -> None:
    """Gradients by the logits, of the lse that is given, or is formed again."""
    if not x.numel():
        return
    wide, ignored = x.float(), label == IGNORED
    if lse is None:
        most = wide.amax(axis, keepdim=True)
        e = torch.exp(wide - most)
        mass = e.sum(axis, keepdim=True)
        slope, found = e / mass, torch.log(mass) + most
    else:
        found = lse.unsqueeze(axis)
        slope = torch.exp(wide - found)
    if z:
        slope = slope + 2.0 * z * found * slope
    if smoothing:
        slope = slope - smoothing / x.shape[axis]
    chosen = torch.zeros_like(wide, dtype=torch.bool)
    chosen.scatter_(axis, torch.where(ignored, 0, label).long().unsqueeze(axis), True)
    slope = torch.where(chosen, slope - (1.0 - smoothing), slope)
    dx.copy_(torch.where(ignored.unsqueeze(axis), 0.0, dloss.unsqueeze(axis) * slope))


def _picked(x: torch.Tensor, label: torch.Tensor, axis: int) -> torch.Tensor:
    places = torch.where(label == IGNORED, 0, label).long()
    return x.gather(axis, places.unsqueeze(axis)).squeeze(axis)
