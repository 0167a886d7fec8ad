"""What a reference needs of its inputs so that its results mean anything, such as boundaries in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzz.references.alike import Arrays
from fuzz.references.residuals import solves as are_solves
from fuzz.references.tracing import arguments_of, intercepted
from oracles.operand import Kept

_PROPERTY = {
    "searchsorted": ("sorted_sequence", "ascending"), "bucketize": ("boundaries", "ascending"),
    "linalg_cholesky_ex": ("self", "definite"), "cholesky": ("self", "definite"), "_linalg_eigh": ("A", "symmetric"),
    "_linalg_solve_ex": ("A", "regular"), "linalg_inv_ex": ("A", "regular"),
    "cholesky_solve": ("input2", "dominant"), "cholesky_inverse": ("self", "dominant"),
    "linalg_solve_triangular": ("self", "pivots"), "triangular_solve": ("A", "pivots"),
}  # fmt: skip
"""The argument of an operation that must have a property, and the property."""


@dataclass(frozen=True)
class InputNeeds:
    """What a reference needs of its inputs."""

    kept: Mapping[str, Kept] = field(default_factory=dict)
    """The properties that inputs must have, by name."""
    marks: Sequence[float] = ()
    """The numbers with which the reference compares elements: the edges of its bins."""
    solves: bool = False
    """Whether the reference calls solves or factorisations of matrices."""


def needs_of(reference: Callable[..., Any], runs: Sequence[Arrays]) -> InputNeeds:
    """Return the needs of a reference in torch, as some calls show them. It may raise."""
    import torch

    kept, marks, solves = dict[str, Kept](), list[float](), False

    def noted(function: Any, args: Any, kwargs: Any) -> Any:
        nonlocal solves
        name = function._schema.name.partition("::")[2]
        solves |= are_solves([function])
        if name in _PROPERTY and arguments_of(function, args, kwargs).get("sorter") is None:
            argument, needed = _PROPERTY[name]
            table = arguments_of(function, args, kwargs)[argument]
            kept.update(dict.fromkeys(_equal(table, arrays), ((needed, ()),)))
        if (bins := binned(function, args, kwargs)) is not None and not marks:
            marks.extend(np.linspace(bins.low, bins.high, bins.count + 1).tolist())
        return function(*args, **kwargs)

    for arrays in runs:
        try:
            with intercepted(noted):
                reference(**{name: torch.tensor(each) for name, each in arrays.items()})
        except Exception:  # a reference may raise anything; what it did before counts
            continue
    return InputNeeds(kept, marks, solves)


def _equal(tensor: Any, arrays: Arrays) -> Sequence[str]:
    """Return the names of the inputs that are a tensor of several elements."""
    found = tensor.detach().numpy()
    return [name for name, each in arrays.items() if each.size > 1 and np.array_equal(each, found)]


@dataclass(frozen=True)
class Bins:
    """The bins of equal width of a histogram of floats."""

    elements: Any
    """The tensor that is counted."""
    low: float
    high: float
    count: int


def binned(function: Any, args: Any, kwargs: Any) -> Bins | None:
    """Return the bins of an operation that counts floats; None for any other operation."""
    name = function._schema.name
    if name not in ("aten::histc", "aten::histogram"):
        return None
    given = arguments_of(function, args, kwargs)
    elements, count = given["self"], given["bins"]
    if not isinstance(count, int):
        return None  # the edges are given as a tensor, and nothing is calculated
    low, high = (given["min"], given["max"]) if name == "aten::histc" else given["range"] or (0.0, 0.0)
    if low == high == 0 and elements.numel():
        low, high = elements.min().item(), elements.max().item()
    return Bins(elements, float(low), float(high), count)


def well_defined() -> Any:
    """Return a context in which torch raises where results mean nothing: OverflowError for the lowest integer divided
    by -1, which ends the process, and ValueError for boundaries that are not in order, such as NaN."""
    import torch

    def checked(function: Any, args: Any, kwargs: Any) -> Any:
        name = function._schema.name.partition("::")[2]
        if kwargs.get("rounding_mode") == "trunc":
            one, other = (torch.as_tensor(each) for each in args[:2])
            if not one.is_floating_point() and one.dtype != torch.bool:
                lowest = torch.iinfo(one.dtype).min
                if lowest and bool(((one == lowest) & (other == -1)).any()):
                    raise OverflowError(f"{lowest} / -1 is no {one.dtype}")
        if name in ("searchsorted", "bucketize"):
            given, argument = arguments_of(function, args, kwargs), _PROPERTY[name][0]
            table, order = given[argument], given.get("sorter")
            table = table if order is None else table.gather(-1, order)
            if not bool((table[..., 1:] >= table[..., :-1]).all()) or bool((table != table).any()):
                raise ValueError(f"the {argument} of {name} are not in order")
        return function(*args, **kwargs)

    return intercepted(checked)
