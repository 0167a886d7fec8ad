"""The 16 correct kernels, in NumPy: with the blocks, tiles and masks that the kernels have which they stand for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]
BLOCK = 64
SLOPE = np.float32(0.01)
_erf = np.vectorize(math.erf, otypes=[np.float32])


def _wide(x: Rows) -> Rows:
    return x.astype(np.float32)


def _padded(x: Rows, value: float) -> Rows:
    """Rows that are filled up to whole blocks."""
    tail = -x.shape[-1] % BLOCK
    return np.pad(_wide(x), [(0, 0)] * (x.ndim - 1) + [(0, tail)], constant_values=value)


def softmax(x: Rows, *, y: Rows) -> None:
    """The maximum of whole rows, then sums by blocks."""
    below = _wide(x) - _wide(x).max(-1, keepdims=True)
    e = np.exp(_padded(below, -math.inf))
    y[...] = (e / e.sum(-1, keepdims=True))[..., : x.shape[-1]]


def softmax_blocks(x: Rows, *, y: Rows) -> None:
    """Whole blocks are loaded, what is beyond the row as minus infinity."""
    loaded = _padded(x, other := -math.inf)
    e = np.exp(loaded - np.maximum(loaded.max(-1, keepdims=True), other))
    y[...] = (e / e.sum(-1, keepdims=True))[..., : x.shape[-1]]


def layer_norm(x: Rows, *, eps: float, y: Rows) -> None:
    """Two passes."""
    centred = _wide(x) - _wide(x).mean(-1, keepdims=True)
    y[...] = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(eps))


def matmul(a: Rows, b: Rows, *, c: Rows) -> None:
    """The whole product at once."""
    c[...] = _wide(a) @ _wide(b)


def matmul_tiles(a: Rows, b: Rows, *, c: Rows) -> None:
    """Tiles of k, one after the other."""
    acc = np.zeros(c.shape, np.float32)
    for first in range(0, a.shape[-1], BLOCK):
        tile = _wide(a[..., first : first + BLOCK]) @ _wide(b[..., first : first + BLOCK, :])
        acc = acc + tile
    c[...] = acc


def gelu(x: Rows, *, y: Rows) -> None:
    """By the error function."""
    y[...] = np.float32(0.5) * _wide(x) * (1.0 + _erf(_wide(x) * np.float32(0.5**0.5)))


def silu(x: Rows, *, y: Rows) -> None:
    """By the exponential."""
    y[...] = _wide(x) / (1.0 + np.exp(-_wide(x)))


def rms_norm(x: Rows, *, eps: float, y: Rows) -> None:
    """One pass."""
    mean = (_wide(x) * _wide(x)).mean(-1, keepdims=True)
    y[...] = _wide(x) / np.sqrt(mean + np.float32(eps))


def l2norm(x: Rows, *, y: Rows) -> None:
    """Rows of length 1."""
    squares = (_wide(x) * _wide(x)).sum(-1, keepdims=True)
    y[...] = _wide(x) / np.sqrt(squares + np.float32(1e-6))


def relu(x: Rows, *, y: Rows) -> None:
    """What is not positive is 0."""
    y[...] = np.where(_wide(x) <= 0.0, np.float32(0.0), _wide(x))


def leaky_relu(x: Rows, *, y: Rows) -> None:
    """What is not positive is small."""
    y[...] = np.where(_wide(x) <= 0.0, SLOPE * _wide(x), _wide(x))


def sigmoid(x: Rows, *, y: Rows) -> None:
    """By the exponential."""
    y[...] = 1.0 / (1.0 + np.exp(-_wide(x)))


def tanh(x: Rows, *, y: Rows) -> None:
    """The library's."""
    y[...] = np.tanh(_wide(x))


def elu(x: Rows, *, y: Rows) -> None:
    """By the exponential, less 1, below zero."""
    y[...] = np.where(_wide(x) <= 0.0, np.expm1(np.where(_wide(x) <= 0.0, _wide(x), 0.0)), _wide(x))


def attention_of_heads(q: Rows, k: Rows, v: Rows, *, o: Rows) -> None:
    """All scores at once."""
    s = (_wide(q) @ _wide(k).T) / np.sqrt(np.float32(q.shape[-1]))
    e = np.exp(s - s.max(-1, keepdims=True))
    o[...] = (e @ _wide(v)) / e.sum(-1, keepdims=True)


def flash_attention(q: Rows, k: Rows, v: Rows, *, o: Rows) -> None:
    """Blocks of keys; what was added before is scaled again whenever the maximum grows."""
    rows = len(q)
    most = np.full((rows, 1), -math.inf, np.float32)
    mass, acc = np.zeros((rows, 1), np.float32), np.zeros(o.shape, np.float32)
    for first in range(0, len(k), BLOCK):
        s = (_wide(q) @ _wide(k[first : first + BLOCK]).T) / np.sqrt(np.float32(q.shape[-1]))
        higher = np.maximum(most, s.max(-1, keepdims=True))
        shift = np.where(higher == -math.inf, np.float32(0.0), higher)
        alpha, p = np.exp(most - shift), np.exp(s - shift)
        mass = mass * alpha + p.sum(-1, keepdims=True)
        acc = acc * alpha + p @ _wide(v[first : first + BLOCK])
        most = higher
    o[...] = acc / mass
