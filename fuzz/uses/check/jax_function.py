"""A function of JAX's arrays as one of NumPy's: both have the same elements, which are copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np


def of_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes and returns NumPy's arrays, and calls one that takes JAX's."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return _opened(function(*map(_given, args), **{name: _given(each) for name, each in kwargs.items()}))

    return called


def _given(value: Any) -> Any:
    import jax.numpy as jnp

    return jnp.array(value) if isinstance(value, np.ndarray) else value  # asarray may leave it where it is


def _opened(value: Any) -> Any:
    import jax

    if isinstance(value, Mapping):
        return {name: _opened(each) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(map(_opened, value))
    return np.asarray(value) if isinstance(value, jax.Array) else value
