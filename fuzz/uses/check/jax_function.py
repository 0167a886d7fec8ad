"""A function of JAX's arrays as one of NumPy's: both have the same elements, which are copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib.util import find_spec
from typing import Any

import numpy as np

from fuzz.uses.check.results import CheckError


def of_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes and returns NumPy's arrays, and calls one that takes JAX's. Raises CheckError where
    JAX is not installed, of which the function would be accused."""
    if find_spec("jax") is None:
        raise CheckError("arrays='jax': JAX is not installed: pip install jax")

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
        return tuple(map(_opened, value))
    return np.asarray(value) if isinstance(value, jax.Array) else value
