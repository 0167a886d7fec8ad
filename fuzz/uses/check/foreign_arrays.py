"""A function of another library's arrays as one of NumPy's: both have the same elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any

import numpy as np

from fuzz.transport.python.foreign import Maker, opened
from fuzz.uses.check.results import CheckError


def of_jax() -> Maker:
    """What makes JAX's arrays, which have copies of the elements. Raises CheckError where it is not installed, of which
    the function would be accused."""
    if find_spec("jax") is None:
        raise CheckError("arrays='jax': JAX is not installed: pip install jax")
    import jax.numpy as jnp

    return jnp.array  # asarray may leave the elements where they are


def of_numpy(function: Callable[..., Any], made: Maker) -> Callable[..., Any]:
    """Return a function that takes and returns NumPy's arrays, and calls one that takes and returns those that are made
    so. What it returns is read by `__dlpack__` where NumPy does not know it."""

    def given(value: Any) -> Any:
        return made(value) if isinstance(value, np.ndarray) else value

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return opened(function(*map(given, args), **{name: given(each) for name, each in kwargs.items()}))

    return called
