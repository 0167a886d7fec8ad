"""Arrays of other libraries: made of those in the memory of a case, and read again, by DLPack if there is no other
way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

Maker = Callable[[Any], Any]
"""Makes an array of a library from one of NumPy or a tensor of torch, as `jax.numpy.array` does."""


def maker(name: str) -> Maker:
    """Return the function of that name, given with its module. Raises ImportError, and AttributeError if the module has
    no such function."""
    module, _, function = name.rpartition(".")
    found: Maker = getattr(import_module(module), function)
    return found


def jax_array(tensor: Any) -> Any:
    """Return an array of JAX's on a GPU. It is a copy, aligned as XLA takes for granted."""
    import jax

    return jax.dlpack.from_dlpack(tensor.detach().clone())


def opened(value: Any, library: Any = np) -> Any:
    """Return what a kernel returned, with arrays of other libraries replaced by those of NumPy, or by tensors if the
    library is torch."""
    if isinstance(value, Mapping):
        return {name: opened(each, library) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(opened(each, library) for each in value)
    if library is not np:
        foreign = hasattr(value, "__dlpack__") and not isinstance(value, library.Tensor)
        return library.from_dlpack(value) if foreign else value
    if isinstance(value, np.ndarray | np.generic) or not hasattr(value, "__dlpack__"):
        return value
    # DLPack has no bf16 in NumPy, and NumPy has no way to what another library alone can convert.
    return np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
