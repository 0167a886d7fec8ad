"""What is made of sums along rows, in NumPy, as it is shipped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sums import added, averaged, online, welford

Rows = NDArray[Any]
IGNORED = -100


def softmax_backward(y: Rows, dy: Rows, *, dx: Rows) -> None:
    """The difference of two products."""
    products = y * dy
    dx[...] = products - y * added(products)


def logsumexp(x: Rows, *, way: str, y: Rows) -> None:
    """With 0 in the place of a maximum that is no number, or by blocks, where a row all of minus infinity gives NaN."""
    if way == "finite":
        y[...] = _finite(x)[..., 0]
        return
    most, mass = online(x)
    y[...] = np.where(most == -np.inf, np.float32(np.nan), np.log(mass) + most)[..., 0]


def logsumexp_backward(x: Rows, dy: Rows, y: Rows | None = None, *, way: str, dx: Rows) -> None:
    """The same, where its result is not given."""
    if y is not None:
        sums = y[..., None]
    elif way == "finite":
        sums = _finite(x)
    else:
        most, mass = online(x)
        sums = np.log(mass) + most
    dx[...] = dy[..., None] * np.exp(x - sums)


def _finite(x: Rows) -> Rows:
    shift = _shift(x)
    return np.log(added(np.exp(x - shift))) + shift


def _shift(x: Rows) -> Rows:
    most = x.max(-1, keepdims=True)
    return np.where(np.isinf(most), np.float32(0), most)


def row_mean_backward(x: Rows, dy: Rows, *, dx: Rows) -> None:
    """Times the reciprocal of n."""
    dx[...] = (dy * (1.0 / np.float32(x.shape[-1])))[..., None]


def row_var_backward(x: Rows, dy: Rows, *, correction: float, dx: Rows) -> None:
    """By a mean that is kept up to date."""
    mean, _ = welford(x)
    dx[...] = (2.0 * dy / np.float32(x.shape[-1] - correction))[..., None] * (x - mean)


def cross_entropy(x: Rows, label: Rows, *, smoothing: float = 0.0, way: str, loss: Rows) -> None:
    """By logarithms of probabilities: the maximum is taken off all, and never added again. Or a logarithm of a sum less
    the logit, with 0 in the place of a maximum that is no number."""
    if way == "finite":
        _put_loss(loss, label, _finite(x) - _of_label(x, label), _finite(x) - averaged(x), smoothing)
        return
    shifted = x - x.max(-1, keepdims=True)
    logarithm = np.log(added(np.exp(shifted)))
    even = logarithm - averaged(shifted)
    if way == "weighted":
        even = added((logarithm - shifted) / np.float32(x.shape[-1]))
    _put_loss(loss, label, logarithm - _of_label(shifted, label), even, smoothing)


def _of_label(x: Rows, label: Rows) -> Rows:
    return np.take_along_axis(x, np.where(label == IGNORED, 0, label)[..., None], -1)


def _put_loss(loss: Rows, label: Rows, nll: Rows, even: Rows, smoothing: float) -> None:
    losses = (1.0 - smoothing) * nll + smoothing * even if smoothing else nll
    loss[...] = np.where(label == IGNORED, np.float32(0), losses[..., 0])


def cross_entropy_backward(x: Rows, label: Rows, dloss: Rows, *, dx: Rows) -> None:
    """With 0 in the place of a maximum that is no number."""
    e = np.exp(x - _shift(x))
    slope = e / added(e) - (np.arange(x.shape[-1]) == label[..., None])
    dx[...] = np.where(label[..., None] == IGNORED, np.float32(0), dloss[..., None] * slope)


def topk_softmax(x: Rows, *, renormalise: float = 0.0, weight: Rows, expert: Rows) -> None:
    """Exponentials times the reciprocal of their sum, which one pass makes."""
    most, mass = online(x)
    p = np.exp(x - most) * (1.0 / mass)
    places = np.argsort(-p, axis=-1, kind="stable")[..., : weight.shape[-1]]
    largest = np.take_along_axis(p, places, -1)
    weight[...] = largest / added(largest) if renormalise else largest
    expert[...] = places


def softmax_of_topk(x: Rows, *, weight: Rows, expert: Rows) -> None:
    """The same of the largest logits."""
    places = np.argsort(-x, axis=-1, kind="stable")[..., : weight.shape[-1]]
    largest = np.take_along_axis(x, places, -1)
    e = np.exp(largest - largest[..., :1])
    weight[...] = e * (1.0 / added(e))
    expert[...] = places
