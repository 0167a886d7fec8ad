"""JAX's functions on NumPy arrays, each operation run at once."""

from __future__ import annotations

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np

Array = np.ndarray


def rms_norm(x: Array, weight: Array, *, eps: float, y: Array) -> None:
    """Write flax.linen.RMSNorm."""
    y[...] = flax.linen.RMSNorm(epsilon=eps).apply({"params": {"scale": jnp.asarray(weight)}}, jnp.asarray(x))


def layer_norm(x: Array, weight: Array, bias: Array, *, eps: float, y: Array) -> None:
    """Write flax.linen.LayerNorm with the variance of two passes."""
    factors = {"scale": jnp.asarray(weight), "bias": jnp.asarray(bias)}
    y[...] = flax.linen.LayerNorm(epsilon=eps, use_fast_variance=False).apply({"params": factors}, jnp.asarray(x))


def softmax(x: Array, *, y: Array) -> None:
    """Write jax.nn.softmax."""
    y[...] = jax.nn.softmax(jnp.asarray(x), axis=-1)


def log_softmax(x: Array, *, y: Array) -> None:
    """Write jax.nn.log_softmax."""
    y[...] = jax.nn.log_softmax(jnp.asarray(x), axis=-1)


def gelu(x: Array, *, y: Array) -> None:
    """Write jax.nn.gelu."""
    y[...] = jax.nn.gelu(jnp.asarray(x), approximate=False)


def gelu_tanh(x: Array, *, y: Array) -> None:
    """Write jax.nn.gelu of the tanh form."""
    y[...] = jax.nn.gelu(jnp.asarray(x), approximate=True)


def row_sum(x: Array, *, y: Array) -> None:
    """Write jnp.sum."""
    y[...] = jnp.sum(jnp.asarray(x), axis=-1)


def row_var(x: Array, *, correction: float, y: Array) -> None:
    """Write jnp.var."""
    y[...] = jnp.var(jnp.asarray(x), axis=-1, ddof=correction)


def cumsum(x: Array, *, y: Array) -> None:
    """Write jnp.cumsum."""
    y[...] = jnp.cumsum(jnp.asarray(x), axis=-1)
