"""layer_norm and its gradients in torch: composed of elementary operations in float32, and by torch's own functions."""

from __future__ import annotations

import torch


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, *, eps: float, axis: int,
    y: torch.Tensor, mean: torch.Tensor | None = None, rstd: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """The mean, what lies beside it, the mean of its squares, the root: along any axis."""
    wide = x.float()
    centre = wide.mean(axis, keepdim=True)
    root = _root(wide - centre, eps, axis)
    result = (wide - centre) * root
    if weight is not None:
        result = result * _along(weight, x, axis)
    if bias is not None:
        result = result + _along(bias, x, axis)
    y.copy_(result)
    _store(mean, centre.squeeze(axis))
    _store(rstd, root.squeeze(axis))


def native(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, *, eps: float, axis: int,
    y: torch.Tensor, mean: torch.Tensor | None = None, rstd: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """What torch.nn.functional.layer_norm calls, which normalises the last axis."""
    _check_last(x, axis)
    result, centre, root = torch.native_layer_norm(x, (x.shape[-1],), weight, bias, eps)
    y.copy_(result)
    _store(mean, centre.squeeze(-1))
    _store(rstd, root.squeeze(-1))


def layer_norm_backward(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor | None = None, mean: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None, *, eps: float, axis: int, dx: torch.Tensor, dw: torch.Tensor | None = None,
    db: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """dx from two means along the axis, dw and db from sums over the rows."""
    wide, given = x.float(), dy.float()
    centred = wide - (wide.mean(axis, keepdim=True) if mean is None else mean.unsqueeze(axis))
    root = _root(centred, eps, axis) if rstd is None else rstd.unsqueeze(axis)
    h = centred * root
    g = given if weight is None else given * _along(weight, x, axis)
    rows = [place for place in range(x.ndim) if place != axis % x.ndim]
    # All is read before anything is written: dx may lie in the memory of x or dy.
    of_weight = (given * h).sum(rows) if rows else given * h
    of_bias = given.sum(rows) if rows else given
    _store(dw, of_weight)
    _store(db, of_bias)
    dx.copy_(root * (g - g.mean(axis, keepdim=True) - h * (g * h).mean(axis, keepdim=True)))


def native_backward(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor | None = None, *, mean: torch.Tensor, rstd: torch.Tensor,
    axis: int, dx: torch.Tensor, dw: torch.Tensor | None = None, db: torch.Tensor | None = None, eps: float = 0.0,
) -> None:  # fmt: skip
    """What autograd calls for torch.nn.functional.layer_norm, with what its forward stored."""
    _check_last(x, axis)
    wanted = [True, dw is not None, db is not None]
    # It reads a bias only to know of what dtype its gradient is.
    found = torch.ops.aten.native_layer_norm_backward(
        dy, x, [x.shape[-1]], mean.unsqueeze(-1), rstd.unsqueeze(-1), weight, weight, wanted
    )
    for gradient, value in zip((dx, dw, db), found, strict=True):
        _store(gradient, value)


def _root(centred: torch.Tensor, eps: float, axis: int) -> torch.Tensor:
    # The root is taken, then inverted: torch's rsqrt is an estimate on some machines.
    return 1.0 / torch.sqrt(centred.square().mean(axis, keepdim=True) + eps)


def _along(column: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
    return column.float().reshape([-1] + [1] * (x.ndim - 1 - axis % x.ndim))


def _store(output: torch.Tensor | None, value: torch.Tensor) -> None:
    if output is not None:
        output.copy_(value)


def _check_last(x: torch.Tensor, axis: int) -> None:
    if axis not in (-1, x.ndim - 1):
        raise ValueError("torch normalises the last axis")
