"""What a function says of itself: its name, its parameters, and the library that it calculates with, by the names that
its code looks up."""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

LIBRARIES = "torch", "jax", "numpy"
_DEEP = 3
"""How deep calls of other functions are followed to find the library of a reference."""
OF_PARTS = "__of_parts__"
"""The attribute of a function of parts of complex numbers: the function of the numbers themselves."""


def has_signature(reference: Callable[..., Any]) -> bool:
    """Whether a function has a signature, so that a call can name arguments. Some functions of torch and the ufuncs of
    NumPy have none."""
    try:
        parameters = inspect.signature(reference).parameters.values()
    except (TypeError, ValueError):
        return False
    return not any(each.kind is each.POSITIONAL_ONLY and each.default is each.empty for each in parameters)


def parameters_of(reference: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function, or of the `forward` of a module, by name."""
    return inspect.signature(getattr(reference, "forward", reference)).parameters


def defaults_of(reference: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the defaults of a function's parameters, by name, without parameters that have none."""
    if not has_signature(reference):
        return {}
    parameters = parameters_of(reference).values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


_NO_TENSOR, _TENSOR = re.compile(r"\b(int|float|bool|str|dtype|device)\b"), re.compile(r"Tensor|[Aa]rray")


def optional_of(function: Callable[..., Any]) -> Sequence[str]:
    """Return the parameters of a function that are None by default, except those whose annotation rules tensors out."""
    found = [name for name, default in defaults_of(function).items() if default is None]
    said = {name: str(parameters_of(function)[name].annotation) for name in found}
    return [name for name in found if not _NO_TENSOR.search(said[name]) or _TENSOR.search(said[name])]


def name_of(reference: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of a module."""
    return str(getattr(reference, "__name__", type(reference).__name__))


def titled(reference: Callable[..., Any]) -> str:
    """Return 'reference rms_norm', or only 'reference' if that is its name."""
    name = name_of(reference)
    return name if name == "reference" else f"reference {name}"


def with_names(function: Callable[..., Any], names: Sequence[str], title: str = "") -> Callable[..., Any]:
    """Return a function of the named arguments alone that takes them in order or by name."""

    def reference(*some: Any, **named: Any) -> Any:
        return function(**{**dict(zip(names, some, strict=False)), **named})

    parameters = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in names]
    setattr(reference, "__signature__", inspect.Signature(parameters))  # noqa: B010 (a function has none to a checker)
    reference.__name__ = reference.__qualname__ = title or reference.__name__
    return reference


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
