"""The name of a function, and its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any


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
    return [
        name
        for name, default in defaults_of(function).items()
        if default is None and not _is_plain(parameters_of(function)[name].annotation)
    ]


def _is_plain(annotation: Any) -> bool:
    words = str(annotation)
    return _NO_TENSOR.search(words) is not None and _TENSOR.search(words) is None


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
