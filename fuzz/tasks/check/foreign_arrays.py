"""Functions of arrays that are no tensors of torch: which those are, and that of another library as one of NumPy's."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from functools import partial, wraps
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from fuzz.core.transport.python.foreign import Maker, opened
from fuzz.references.arrays import libraries_of
from fuzz.tasks.check.results import CheckError

_OF_TENSORS = {"numpy", "detach", "cpu", "data_ptr", "contiguous", "new_tensor", "new_empty", "new_zeros", "new_full"}
_OF_ARRAYS = {"astype", "copy", "ctypes", "tobytes"}
"""What tensors of torch have and arrays of NumPy have not, and the other way round."""


def meant_by(kernel: Callable[..., Any]) -> Literal["torch", "numpy", "jax"]:
    """Return whose arrays a function takes, as its code says: those of the library that it calls, and torch's where it
    calls none or several."""
    while isinstance(kernel, partial):
        kernel = kernel.func
    plain: Any = inspect.unwrap(kernel)
    plain = plain if inspect.isroutine(plain) else type(plain).__call__
    code = getattr(plain, "__code__", None)
    steps = [*dis.get_instructions(code)] if code is not None else []
    has = {each.argval for each in steps if each.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    inside = {str(each.argval).partition(".")[0] for each in steps if each.opname == "IMPORT_NAME"}
    used = libraries_of(kernel) | libraries_of(plain) | inside
    if "torch" in used or has & _OF_TENSORS:
        return "torch"
    return "jax" if "jax" in used else "numpy" if "numpy" in used or has & _OF_ARRAYS else "torch"


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
