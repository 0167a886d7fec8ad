"""The unit of rounding in which a reference calculates: that of f32, or of shorter floats to which it casts itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from fuzz.references.alike import Arrays
from fuzz.references.gpu import without_tf32
from fuzz.references.guard import widened
from fuzz.references.tracing import intercepted, tensors_in
from oracles.dtypes import SINGLE, SPELLED, Format


def unit_in(reference: Callable[..., Any], plain: Collection[str], device: str | None) -> Callable[[Arrays], float]:
    """Return a function of inputs that returns the largest unit in which a reference in torch calculates. `plain` names
    the operations that round nothing. The first call decides: cases differ in extents and values, not in dtypes."""
    known = list[float]()

    def unit(arrays: Arrays) -> float:
        if not known:
            known.append(_unit(reference, arrays, plain, device))
        return known[0]

    return unit


def _unit(reference: Callable[..., Any], arrays: Arrays, plain: Collection[str], device: str | None) -> float:
    units = {SINGLE.u}

    def noted(function: Any, args: Any, kwargs: Any) -> Any:
        if function._schema.name not in plain:
            names = (str(each.dtype).rpartition(".")[2] for each in tensors_in((args, kwargs)))
            units.update(form.u for name in names if isinstance(form := SPELLED.get(name), Format))
        return function(*args, **kwargs)

    def called(**tensors: Any) -> Any:
        with intercepted(noted):
            return reference(**tensors)

    with without_tf32():
        widened(called, singles(arrays), widens=False, device=device)
    return max(units)


def singles(arrays: Arrays) -> Arrays:
    """Return the arrays, or tensors, with floats in f32."""
    if all(isinstance(each, np.ndarray) for each in arrays.values()):
        return floats_as(np.float32, arrays)
    tensors: Mapping[str, Any] = arrays
    return {name: each.float() if each.is_floating_point() else each for name, each in tensors.items()}


def floats_as(dtype: type[np.floating[Any]], arrays: Arrays) -> Arrays:
    """Return the arrays with floats in this dtype."""
    return {name: each.astype(dtype) if each.dtype.kind == "f" else each for name, each in arrays.items()}
