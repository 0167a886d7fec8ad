"""References that calculate with integers alone: run as they are, they say the only right outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.references.alike import Arrays
from fuzz.references.rerun import OF_ORDER, Replayed, Ways
from fuzz.references.tracing import intercepted, tensors_in

_ORDERS = 16
"""The number of orders of equal elements that are tried if a reference sorts or selects. One pair of equal elements
keeps its order in all of them once in 2^16 cases."""


@dataclass(frozen=True)
class IntegerRun:
    """One run of a reference that makes no floats."""

    outputs: Sequence[NDArray[Any]]
    selects: bool
    """Whether the reference sorts, or selects by order: equal elements may stand in any order."""


def exact(reference: Callable[..., Any], arrays: Arrays, ways: Ways) -> Sequence[Replayed] | None:
    """Return the outputs of a reference, which allow no error; None if it makes floats of these integers. Places that
    are selected by order may be others of equal elements, and other outputs that depend on these are not judged. Raises
    what the reference raises."""
    run = calculated(reference, arrays)
    if run is None:
        return None
    selected = ways.selected(arrays) if run.selects else ()
    others = [ways.noisy(arrays, seed, 1.0) for seed in range(_ORDERS if run.selects else 0)]
    found = list[Replayed]()
    for at, output in enumerate(run.outputs):
        value, none = output.astype(np.float64), np.zeros(output.shape)
        same = (each for each in selected if each.places is not None and np.array_equal(each.values, value))
        if (chosen := next(same, None)) is not None:
            found.append(Replayed(value, none, whole=True, places=chosen.places))
            continue
        if not all(np.array_equal(other[at], output) for other in others):
            value = np.full(output.shape, np.nan)
        found.append(Replayed(value, none, whole=True, exact=output))
    return found


def calculated(reference: Callable[..., Any], arrays: Arrays) -> IntegerRun | None:
    """Return a run of a reference as it is; None if it makes floats. Raises what the reference raises."""
    import torch

    made_floats = selects = False

    def noted(function: Any, args: Any, kwargs: Any) -> Any:
        nonlocal made_floats, selects
        found = function(*args, **kwargs)
        made_floats |= any(each.is_floating_point() or each.is_complex() for each in tensors_in(found))
        selects |= function._schema.name in OF_ORDER
        return found

    with intercepted(noted), undivided():
        returned = reference(**{name: torch.tensor(each) for name, each in arrays.items()})
    flat = [*tensors_in(returned)]
    return None if made_floats or not flat else IntegerRun([each.detach().numpy() for each in flat], selects)


def undivided() -> Any:
    """Return a context in which torch raises OverflowError for the lowest integer divided by -1. The processor has no
    result for that, and ends the process."""
    import torch

    def checked(function: Any, args: Any, kwargs: Any) -> Any:
        if kwargs.get("rounding_mode") == "trunc":
            one, other = (torch.as_tensor(each) for each in args[:2])
            if not one.is_floating_point() and one.dtype != torch.bool:
                lowest = torch.iinfo(one.dtype).min
                if lowest and bool(((one == lowest) & (other == -1)).any()):
                    raise OverflowError(f"{lowest} / -1 is no {one.dtype}")
        return function(*args, **kwargs)

    return intercepted(checked)
