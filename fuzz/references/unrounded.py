"""References that round nothing: they calculate with integers alone, or compare, select and move elements. Run as they
are, they say the only right outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.references.alike import Arrays
from fuzz.references.needs import Bins, binned, well_defined
from fuzz.references.rerun import OF_ORDER, PLAIN, Replayed, Ways
from fuzz.references.tracing import arguments_of, intercepted, tensors_in
from fuzz.references.units import singles
from oracles.dtypes import SINGLE

_ORDERS = 16
"""The number of orders of equal elements that are tried if a reference sorts or selects. One pair of equal elements
keeps its order in all of them once in 2^16 cases."""
_STEPS = 8.0
"""How near an edge an element of a histogram is not judged, in rounding errors of f32: a kernel subtracts, divides and
multiplies, in any order."""
_UNROUNDED = PLAIN - {"aten::index_put_"} | frozenset(f"aten::{name}" for name in (
    "_unique2", "unique_dim", "unique_consecutive", "histc", "histogram", "median", "nanmedian", "kthvalue", "mode",
    "cummax", "cummin", "masked_select", "take", "full", "full_like", "zeros", "zeros_like", "ones", "ones_like",
    "empty", "empty_like", "new_zeros", "new_full", "scalar_tensor", "lift_fresh",
))  # fmt: skip
"""Operations whose floats are elements of their arguments, counts, or numbers that are written in the reference."""


@dataclass(frozen=True)
class UnroundedRun:
    """One run of a reference that rounds nothing."""

    outputs: Sequence[NDArray[Any]]
    selects: bool
    """Whether the reference sorts, or selects by order: equal elements may stand in any order."""
    counts: bool
    """Whether the reference counts floats in bins, whose edges a kernel calculates."""


def exact(calculated: Callable[..., UnroundedRun | None], arrays: Arrays, ways: Ways) -> Sequence[Replayed] | None:
    """Return the outputs of a reference, which allow no error; None if it rounds. Places that are selected by order may
    be others of equal elements, and other outputs that depend on these are not judged, nor elements that differ in f32,
    or if elements near the edges of bins lie on their other side. Raises what the reference raises."""
    run = calculated(arrays)
    if run is None:
        return None
    selected = ways.selected(arrays) if run.selects else ()
    orders = [ways.noisy(arrays, seed, 0.0) for seed in range(_ORDERS if run.selects else 0)]
    near = [each for way in (1.0, -1.0) if run.counts and (each := calculated(arrays, way)) is not None]
    others = [each.outputs for each in near]
    floats = {name: each for name, each in arrays.items() if each.dtype.kind == "f"}
    if floats and all(np.array_equal(floats[name], singles(arrays)[name], equal_nan=True) for name in floats):
        others.append(ways.single(arrays))
    found = list[Replayed]()
    for at, output in enumerate(run.outputs):
        whole, value, none = output.dtype.kind in "iub", output.astype(np.float64), np.zeros(output.shape)
        same = (each for each in selected if each.places is not None and np.array_equal(each.values, value))
        if whole and (chosen := next(same, None)) is not None:
            found.append(Replayed(value, none, whole=True, places=chosen.places, moved=chosen.moved))
            continue
        is_open = np.full(output.shape, not all(_equal(other[at], output).all() for other in orders))
        for other in others:
            is_open |= ~_equal(other[at], output)
        value, output = np.where(is_open, np.nan, value), np.where(is_open, output.dtype.type(0), output)
        found.append(Replayed(value, none, whole=whole, exact=output))
    return found


def _equal(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where outputs are equal, as f32 if one of them is; nowhere if their shapes differ."""
    if one.shape != other.shape:
        return np.zeros(other.shape, bool)
    with np.errstate(all="ignore"):
        one, other = (each.astype(np.float32) if each.dtype.kind == "f" else each for each in (one, other))
    return np.asarray((one == other) | ((one != one) & (other != other)))


def calculated(reference: Callable[..., Any], arrays: Arrays, way: float = 0.0) -> UnroundedRun | None:
    """Return a run of a reference as it is; None if it rounds. Elements that are counted in bins are moved up (for a
    `way` of 1) or down (-1) as far as rounding may carry them. Raises what the reference raises."""
    import torch

    rounds = selects = counts = False

    def noted(function: Any, args: Any, kwargs: Any) -> Any:
        nonlocal rounds, selects, counts
        name, given = function._schema.name, {each.untyped_storage()._cdata for each in tensors_in((args, kwargs))}
        bins = binned(function, args, kwargs)
        found = function(*args, **kwargs) if bins is None else _counted(function, bins, args, kwargs, way)
        for each in tensors_in(found):
            if each.is_complex() or (each.is_floating_point() and each.untyped_storage()._cdata not in given):
                rounds |= name not in _UNROUNDED or function._overloadname == "decimals"
                rounds |= name == "aten::_to_copy" and not torch.equal(
                    *(one.double().nan_to_num() for one in (args[0], each))
                )
        selects, counts = selects or name in OF_ORDER, counts or bins is not None
        return found

    with well_defined(), intercepted(noted):
        returned = reference(**{name: torch.tensor(each) for name, each in arrays.items()})
    flat = [*tensors_in(returned)]
    outputs = [(each.double() if each.is_floating_point() else each).detach().numpy() for each in flat]
    return None if rounds or not flat else UnroundedRun(outputs, selects, counts)


def calculated_by_jax(reference: Callable[..., Any], arrays: Arrays) -> UnroundedRun | None:
    """Return a run of a reference in JAX of integers and flags alone; None if it makes floats. Raises what the
    reference raises, and where a quotient has no value."""
    from fuzz.references.jaxprs.evaluation import whole

    found = whole(reference, arrays)
    return None if found is None else UnroundedRun(found, selects=False, counts=False)


def _counted(function: Any, bins: Bins, args: Any, kwargs: Any, way: float) -> Any:
    """Return a histogram with elements moved `way` by rounding errors, and its edges too. An element stays where each
    step to its bin is exact in f32, and none crosses the ends, which are compared."""
    import torch

    x, low, width = bins.elements.detach().numpy(), bins.low, bins.high - bins.low
    with np.errstate(all="ignore"):
        scale, above = np.float64(bins.count) / width, x - low
        steps = (above, above * scale, above * bins.count, x * scale, np.float64(low * scale), scale, np.float64(width))
        certain = above + low == x
        for each in steps:
            certain &= np.asarray(each).astype(np.float32) == each
        far = _STEPS * SINGLE.u * (np.abs(x) + abs(low) + abs(bins.high))
        moved = np.where(certain, x, np.clip(x + way * far, low, bins.high))
        moved = np.where((x >= low) & (x <= bins.high), moved, x)
    given = arguments_of(function, args, kwargs)
    given["self"] = torch.from_numpy(np.asarray(moved, x.dtype))
    found = function(**given) if way else function(*args, **kwargs)
    if way and isinstance(found, tuple):
        return found[0], found[1] * (1.0 + way * _STEPS * SINGLE.u) + way * SINGLE.tiny
    return found
