"""The library that a function calculates with, by the names that its code looks up."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

LIBRARIES = "torch", "jax", "numpy"
_DEEP = 3
"""How deep calls of other functions are followed to find the library of a reference."""


OF_PARTS = "__of_parts__"
"""The attribute of a function of parts of complex numbers: the function of the numbers themselves."""


def library_of(reference: Callable[..., Any]) -> str:
    """Return the library that a reference uses: "torch", "jax", "numpy", or "" otherwise."""
    reference = getattr(reference, OF_PARTS, reference)
    used = {*_used(reference, _DEEP)}
    if not used & {*LIBRARIES}:  # it only calls methods of arrays: take its module's imports
        own = getattr(inspect.unwrap(reference), "__globals__", {}) if callable(reference) else {}
        used = {_library(each) for each in own.values() if isinstance(each, ModuleType)}
    return next((each for each in LIBRARIES if each in used), "")


def libraries_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return the libraries whose names a function, or a function that it calls, looks up."""
    return frozenset(_used(function, _DEEP)) & {*LIBRARIES}


def _used(reference: Any, deep: int) -> Iterator[str]:
    """Yield the libraries whose names a function looks up; functions that it calls are searched to the depth `deep`."""
    yield _library(reference)
    inner = getattr(reference, "__wrapped__", None)  # the function given to jax.jit, for example
    if inner is not None and deep:
        yield from _used(inner, deep - 1)
    code = getattr(reference, "__code__", None)
    if code is None:
        return
    yield from (each.partition(".")[0] for each in code.co_names if each.startswith("jax."))  # imported inside
    outer = inspect.getclosurevars(reference)  # its globals may be namesakes of attributes, as `torch.sum` of a `sum`
    called = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for each in (*(outer.globals[name] for name in outer.globals if name in called), *outer.nonlocals.values()):
        library = _library(each)
        yield library
        if deep and library not in ("numpy", "torch", "jax"):
            yield from _used(each, deep - 1)


def _library(value: Any) -> str:
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    found = "numpy" if isinstance(value, np.ufunc) else str(module).partition(".")[0]
    return {"jaxlib": "jax", "scipy": "numpy", "ml_dtypes": "numpy"}.get(found, found)
