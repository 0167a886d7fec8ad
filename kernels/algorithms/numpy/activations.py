"""Activations in NumPy, in the orders of factors that are shipped."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]
ROOT = np.float32(math.sqrt(2.0 / math.pi))
CUBIC = np.float32(0.044715)
_erf = np.vectorize(math.erf, otypes=[np.float32])


def gelu(x: Rows, *, y: Rows) -> None:
    """x times half of what the error function makes."""
    y[...] = x * (0.5 * (1.0 + _erf(x * np.float32(0.5**0.5))))


def gelu_tanh(x: Rows, *, way: str, y: Rows) -> None:
    """Both terms of the argument by themselves; the half comes first or last."""
    twice = 1.0 + np.tanh(ROOT * x + ROOT * (CUBIC * (x * x * x)))
    y[...] = x * (0.5 * twice) if way == "half first" else x * twice * 0.5


def gelu_tanh_backward(x: Rows, dy: Rows, *, dx: Rows) -> None:
    """1 - t^2 as a product."""
    square = x * x
    t = np.tanh(ROOT * (x + CUBIC * (square * x)))
    rise = (1.0 - t) * (1.0 + t)
    dx[...] = dy * (0.5 * (1.0 + t) + 0.5 * x * rise * (ROOT * (1.0 + 3.0 * CUBIC * square)))


def silu_mul_backward(gate: Rows, up: Rows, dy: Rows, *, way: str, dgate: Rows, dup: Rows) -> None:
    """The slope as a sum, which dy is multiplied by first or last."""
    s, h = 1.0 / (1.0 + np.exp(-gate)), gate / (1.0 + np.exp(-gate))
    slope = h * (1.0 - s) + s
    dgate[...] = dy * slope * up if way == "slope first" else dy * (up * slope)
    dup[...] = dy * h
