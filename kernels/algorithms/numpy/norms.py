"""Norms of rows and of groups of channels, and their gradients, in NumPy, in the orders of factors that are shipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sums import added, averaged, welford

Rows = NDArray[Any]

DX: Mapping[str, Callable[..., Rows]] = {
    "rstd3 over n": lambda x, g, h, rstd, n: rstd * g - 1.0 / n * rstd * rstd * rstd * added(g * x) * x,
    "sum times rstd3": lambda x, g, h, rstd, n: rstd * g - added(g * x) * rstd * rstd * rstd / n * x,
    "rstd2 over n": lambda x, g, h, rstd, n: rstd * g - rstd * (1.0 / n * rstd * rstd * added(g * x) * x),
    "rstd first": lambda x, g, h, rstd, n: rstd * g - x * (rstd * rstd * averaged(rstd * g * x)),
    "apart": lambda x, g, h, rstd, n: rstd * g - h * (rstd * averaged(h * g)),
    "times n": lambda x, g, h, rstd, n: rstd / n * (g * n - h * added(h * g)),
}
"""The gradient of a row, by the name of its algorithm."""


def rms_norm_backward(
    x: Rows, dy: Rows, weight: Rows | None = None, rstd: Rows | None = None, *, eps: float,
    weight_offset: float = 0.0, way: str, dx: Rows, dw: Rows | None = None,
) -> None:  # fmt: skip
    """The gradient by x in one of these ways; of the weight's the root comes last."""
    root = 1.0 / np.sqrt(averaged(x * x) + eps) if rstd is None else rstd[..., None]
    g = dy if weight is None else dy * (weight_offset + weight)
    dx[...] = DX[way](x, g, x * root, root, np.float32(x.shape[-1]))
    if dw is not None:
        dw[...] = (dy * x * root).sum(tuple(range(x.ndim - 1)))


def fused_add_rms_norm_backward(
    x: Rows, dy: Rows, dsum: Rows | None = None, weight: Rows | None = None, rstd: Rows | None = None, *, eps: float,
    weight_offset: float = 0.0, way: str, dx: Rows, dresidual: Rows | None = None, dw: Rows | None = None,
) -> None:  # fmt: skip
    """The same, plus the gradient of the sum."""
    rms_norm_backward(x, dy, weight, rstd, eps=eps, weight_offset=weight_offset, way=way, dx=dx, dw=dw)
    if dsum is not None:
        dx += dsum
    if dresidual is not None:
        dresidual[...] = dx


def layer_norm(
    x: Rows, weight: Rows | None = None, bias: Rows | None = None, *, eps: float, y: Rows, mean: Rows | None = None,
    rstd: Rows | None = None,
) -> None:  # fmt: skip
    """The mean of squares, less the square of the mean."""
    centre = averaged(x)
    root = 1.0 / np.sqrt(averaged(x * x) - centre * centre + eps)
    h = (x - centre) * root
    scaled = h if weight is None else h * weight
    y[...] = scaled if bias is None else scaled + bias
    _stored(mean, centre)
    _stored(rstd, root)


def group_norm(
    x: Rows, weight: Rows | None = None, bias: Rows | None = None, *, eps: float, way: str, y: Rows,
    mean: Rows | None = None, rstd: Rows | None = None,
) -> None:  # fmt: skip
    """By moments, or by a mean that is kept up to date and a product of x that the mean's is taken from."""
    groups = _flat(x)
    if way == "moments":
        centre = averaged(groups)
        root = 1.0 / np.sqrt(averaged(groups * groups) - centre * centre + eps)
        h = (groups - centre) * root
    else:
        centre, squares = welford(groups)
        root = 1.0 / np.sqrt(squares / np.float32(groups.shape[-1]) + eps)
        h = groups * root - centre * root
    scaled = h.reshape(x.shape) if weight is None else h.reshape(x.shape) * weight[..., None]
    y[...] = scaled if bias is None else scaled + bias[..., None]
    _stored(mean, centre)
    _stored(rstd, root)


def group_norm_backward(
    x: Rows, dy: Rows, weight: Rows | None = None, mean: Rows | None = None, rstd: Rows | None = None, *, eps: float,
    dx: Rows, dw: Rows | None = None, db: Rows | None = None,
) -> None:  # fmt: skip
    """With the product of the mean taken from that of x."""
    groups = _flat(x)
    centre = averaged(groups) if mean is None else mean[..., None]
    centred = groups - centre
    root = 1.0 / np.sqrt(averaged(centred * centred) + eps) if rstd is None else rstd[..., None]
    h = groups * root - centre * root
    g = _flat(dy if weight is None else dy * weight[..., None])
    dx[...] = (root * (g - averaged(g) - h * averaged(g * h))).reshape(x.shape)
    if dw is not None:
        dw[...] = (dy * h.reshape(x.shape)).sum((0, 3))
    if db is not None:
        db[...] = dy.sum((0, 3))


def _flat(x: Rows) -> Rows:
    """The channels of a group, and their places, as one row."""
    return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])


def _stored(output: Rows | None, value: Rows) -> None:
    if output is not None:
        output[...] = value[..., 0]
