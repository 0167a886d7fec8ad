"""Correct kernels simulated in NumPy, operation by operation in the declared dtypes and order.

For calibration and tests only: what the oracle must never reject, and (with one step changed) what it must reject.
"""

from __future__ import annotations

from typing import Any as Anything

import numpy as np
from numpy.typing import NDArray

from oracles.numerics import Numerics
from oracles.rounding import NAMES, STORAGE
from oracles.summation import Any, Lanes, Pairwise, Sequential, Summation, Tiles

Array = NDArray[Anything]


def total(terms: Array, order: Summation) -> Array:
    """Sum of `terms` (..., n) over the last axis in their own dtype, in the order declared."""
    n = terms.shape[-1]
    if n == 0:
        return np.zeros(terms.shape[:-1], terms.dtype)
    if isinstance(order, Sequential | Any):
        return _chain(terms)
    if isinstance(order, Lanes):
        return _lanes(terms, order)
    if isinstance(order, Tiles):
        return _tree(_columns(terms, order.width))
    assert isinstance(order, Pairwise)
    return _tree(np.stack([_chain(terms[..., k : k + order.block]) for k in range(0, n, order.block)], axis=-1))


def _chain(terms: Array) -> Array:
    # accumulate, unlike reduce, adds strictly one after the other.
    return np.asarray(np.add.accumulate(terms, axis=-1)[..., -1])


def _tree(parts: Array) -> Array:
    while parts.shape[-1] > 1:
        half = parts.shape[-1] // 2
        paired = parts[..., :half] + parts[..., half : 2 * half]
        parts = np.concatenate([paired, parts[..., 2 * half :]], axis=-1)
    return parts[..., 0]


def _columns(terms: Array, width: int) -> Array:
    """Partial sums (..., width) over every width-th term, zero-padded."""
    padding = -terms.shape[-1] % width
    padded = np.concatenate([terms, np.zeros((*terms.shape[:-1], padding), terms.dtype)], axis=-1)
    columns = padded.reshape(*terms.shape[:-1], -1, width)
    return np.asarray(np.add.accumulate(columns, axis=-2)[..., -1, :])


def _lanes(terms: Array, order: Lanes) -> Array:
    block = order.lanes * order.accumulators
    main = terms.shape[-1] // block * block
    partial = _columns(terms[..., :main], block) if main else np.zeros((*terms.shape[:-1], block), terms.dtype)
    tail = terms[..., main:]
    if order.tail == "predicated":
        for start in range(0, tail.shape[-1], order.lanes):
            piece = tail[..., start : start + order.lanes]
            partial[..., : piece.shape[-1]] += piece
        return _tree(partial)
    start_value = _tree(partial)
    return _chain(np.concatenate([start_value[..., None], tail], axis=-1)) if tail.shape[-1] else start_value


def rstd(x: Array, numerics: Numerics, eps: float) -> Array:
    """Reciprocal root of every row of `x` (rows, n), in the accumulator's dtype, under a settled contract."""
    kind = STORAGE[numerics.accumulate]
    wide = x.astype(kind)
    summed = total(wide * wide, numerics.summation)
    n = np.asarray(x.shape[-1], dtype=kind)
    mean = summed / n if numerics.mean == "divide" else summed * (np.ones((), kind) / n)
    held = np.asarray(eps).astype(x.dtype if numerics.eps == "input" else kind).astype(kind)
    return np.asarray(np.ones((), kind) / np.sqrt(mean + held))


def rms_norm(
    x: Array, numerics: Numerics, eps: float, dtype: str, weight: Array | None = None, offset: float = 0.0
) -> tuple[Array, Array]:
    """y (rows, n) in `dtype` and rstd (rows,) in the accumulator's dtype."""
    numerics = numerics.settled(NAMES[x.dtype])
    root = rstd(x, numerics, eps)
    kind = STORAGE[numerics.multiply or numerics.accumulate]
    value = x.astype(kind) * root.astype(kind)[:, None]
    if numerics.cast == "llama":
        value = value.astype(x.dtype).astype(kind)
    if weight is not None:
        value = value * scale(weight, numerics, offset).astype(kind)
    return value.astype(STORAGE[dtype]), root


def scale(weight: Array, numerics: Numerics, offset: float) -> Array:
    """offset + weight, in the dtype that a settled contract forms it in."""
    if not offset:
        return weight
    kind = weight.dtype if numerics.offset == "weight" else STORAGE[numerics.multiply or numerics.accumulate]
    return np.asarray(weight.astype(kind) + np.asarray(offset).astype(kind))


def rms_norm_backward(
    x: Array,
    dy: Array,
    numerics: Numerics,
    root: Array,
    weight: Array | None = None,
    offset: float = 0.0,
    dsum: Array | None = None,
) -> tuple[Array, Array]:
    """dx (rows, n) in the dtype of x and dw (n,) in the dtype of the sum over rows; `root` is rstd (rows,)."""
    dx, dw = gradients(x, dy, numerics.settled(NAMES[x.dtype]), root, weight, offset, dsum)
    return dx.astype(x.dtype), dw


def gradients(
    x: Array,
    dy: Array,
    numerics: Numerics,
    root: Array,
    weight: Array | None = None,
    offset: float = 0.0,
    dsum: Array | None = None,
) -> tuple[Array, Array]:
    """The same before dx is cast, under a settled contract."""
    kind, accumulator = STORAGE[numerics.multiply or numerics.accumulate], STORAGE[numerics.accumulate]
    r, wide = root.astype(kind)[:, None], x.astype(kind)
    m = dy.astype(kind)
    if weight is not None:
        m = m * scale(weight, numerics, offset).astype(kind)
    n = np.asarray(x.shape[-1], dtype=accumulator)
    h = wide * r
    if numerics.dx == "x_hat":
        mean = total((h * m).astype(accumulator), numerics.summation) / n
        dx = (m - h * mean.astype(kind)[:, None]) * r
    else:
        dot = total((m * wide).astype(accumulator), numerics.summation)
        factor = (-(np.ones((), accumulator) / n)).astype(kind) * r[:, 0] * r[:, 0] * r[:, 0] * dot.astype(kind)
        dx = r * m + factor[:, None] * wide
    if dsum is not None:
        dx = dx + dsum.astype(kind)
    products = dy.astype(kind) * h
    if numerics.cast == "llama":
        products = (dy * h.astype(x.dtype)).astype(x.dtype)
    dw = total(np.moveaxis(products.astype(STORAGE[numerics.dw_accumulate]), 0, -1), numerics.dw_summation)
    return dx, dw
