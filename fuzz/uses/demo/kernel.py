"""The kernel of the demonstration, as somebody who knows NumPy writes it: with a mistake."""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK = 4


def softmax(x: Any) -> Any:
    n = x.shape[-1]
    below = x - x.max(-1, keepdims=True)
    padding = [(0, 0)] * (x.ndim - 1) + [(0, -n % BLOCK)]
    e = np.exp(np.pad(below, padding))  # should be padded with -inf
    return (e / e.sum(-1, keepdims=True))[..., :n]
