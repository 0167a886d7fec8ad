"""MLX's functions on NumPy arrays."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn
import numpy as np

Array = np.ndarray


def rms_norm(x: Array, weight: Array | None = None, *, eps: float, y: Array) -> None:
    """Write mx.fast.rms_norm."""
    y[...] = mx.fast.rms_norm(mx.array(x), _given(weight), eps)


def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float, y: Array) -> None:
    """Write mx.fast.layer_norm."""
    y[...] = mx.fast.layer_norm(mx.array(x), _given(weight), _given(bias), eps)


def softmax(x: Array, *, y: Array) -> None:
    """Write mx.softmax."""
    y[...] = mx.softmax(mx.array(x), axis=-1)


def log_softmax(x: Array, *, y: Array) -> None:
    """Write mlx.nn.log_softmax."""
    y[...] = mlx.nn.log_softmax(mx.array(x), axis=-1)


def logsumexp(x: Array, *, y: Array) -> None:
    """Write mx.logsumexp."""
    y[...] = mx.logsumexp(mx.array(x), axis=-1)


def gelu(x: Array, *, y: Array) -> None:
    """Write mlx.nn.gelu."""
    y[...] = mlx.nn.gelu(mx.array(x))


def gelu_tanh(x: Array, *, y: Array) -> None:
    """Write mlx.nn.gelu_approx."""
    y[...] = mlx.nn.gelu_approx(mx.array(x))


def silu_mul(gate: Array, up: Array, *, y: Array) -> None:
    """Write mlx.nn.silu of the gate times the other half."""
    y[...] = mlx.nn.silu(mx.array(gate)) * mx.array(up)


def row_sum(x: Array, *, y: Array) -> None:
    """Write mx.sum."""
    y[...] = mx.sum(mx.array(x), axis=-1)


def row_var(x: Array, *, correction: float, y: Array) -> None:
    """Write mx.var."""
    y[...] = mx.var(mx.array(x), axis=-1, ddof=int(correction))


def _given(array: Array | None) -> mx.array | None:
    return None if array is None else mx.array(array)
