"""Products of matrices in NumPy, with scales where they are shipped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]


def scaled_matmul(
    scale_a: Matrix, a: Matrix, b: Matrix, scale_b: Matrix, bias: Matrix | None = None, *, c: Matrix
) -> None:
    """The scale of a column first."""
    scaled = (a.astype(np.int32) @ b.astype(np.int32)).astype(np.float32) * scale_b * scale_a[:, None]
    c[...] = scaled if bias is None else scaled + bias


def attention(q: Matrix, k: Matrix, v: Matrix, *, softmax_scale: float, o: Matrix) -> None:
    """The scale of the scores is that of the queries; one that sees no key has zeros."""
    seen = (q * softmax_scale) @ k[:, :, None].swapaxes(-1, -2)
    most = seen.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(seen - most)
    o[...] = np.where(most == -np.inf, np.float32(0), p @ v[:, :, None] / p.sum(-1, keepdims=True))
