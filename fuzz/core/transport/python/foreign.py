"""Arrays of other libraries: made from arrays in the memory of a case, and converted back, by DLPack if need be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

Maker = Callable[[Any], Any]
"""A function that makes an array of a library from one of NumPy or a tensor of torch, such as `jax.numpy.array`."""


def maker(name: str) -> Maker:
    """Return the function of this dotted name, with its module. Raise ImportError or AttributeError without one."""
    module, _, function = name.rpartition(".")
    found: Maker = getattr(import_module(module), function)
    return found


def jax_array(tensor: Any) -> Any:
    """Return an array of JAX on a GPU. It is a copy, with the alignment that XLA assumes."""
    import jax

    return jax.dlpack.from_dlpack(tensor.detach().clone())


def opened(value: Any, library: Any = np) -> Any:
    """Return a kernel's result with other libraries' arrays replaced by NumPy's or, if `library` is torch, tensors."""
    if isinstance(value, Mapping):
        return {name: opened(each, library) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(opened(each, library) for each in value)
    if library is not np:
        foreign = hasattr(value, "__dlpack__") and not isinstance(value, library.Tensor)
        return library.from_dlpack(value) if foreign else value
    if isinstance(value, np.ndarray | np.generic) or not hasattr(value, "__dlpack__"):
        return value
    # NumPy has no bf16 in DLPack, and for some arrays only their own library has a conversion
    return np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
