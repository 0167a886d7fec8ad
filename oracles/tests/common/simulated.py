"""Simulated kernels of formulas beside their budgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.dtypes import form
from oracles.formula.affine.budget import Budget
from oracles.formula.affine.edges import ends
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Inputs
from oracles.formula.trace import Trace
from oracles.rounding import NAMES, round_to
from oracles.simulated.simulation import ORDERS, Simulated
from oracles.tests.common.formulas import problems


@dataclass
class Outside:
    """What simulated kernels returned, and how much of it was outside of a share of the budget."""

    elements: int = 0
    outside: int = 0
    first: str = ""


def allowed(budget: Budget, output: str, dtype: str, got: NDArray[Any], share: float = 1.0) -> NDArray[np.bool_]:
    """Which elements of an output lie within that share of the budget."""
    kept = budget.output(output, dtype)
    with np.errstate(all="ignore"):
        width = budget.half_width(kept) * share
        low, high = (round_to(kept.centre + side * width, form(dtype)) for side in (-1, 1))
        if budget.contract.saturate:
            low, high = (np.clip(end, -form(dtype).max, form(dtype).max) for end in (low, high))
    other = ends(kept)
    if other is not None:
        low, high = (np.where(np.isnan(new), old, new) for new, old in ((other.low, low), (other.high, high)))
    inside = (got >= low) & (got <= high) | (np.isnan(kept.centre) & np.isnan(got)) | (got == kept.centre)
    if other is not None:
        inside |= (other.zero & (got == 0)) | (other.nan & np.isnan(got))
    inside |= ~np.isfinite(width)
    return np.asarray(inside if kept.may is None else inside | kept.may)


def simulated(
    graph: str | Trace, dtype: type[Any], n: int, rows: int, contract: Contract, seed: int, *, share: float = 1.0,
    structured: bool = False,
) -> Outside:  # fmt: skip
    """Kernels of all orders, fused and not, on the formula's hard problems; outputs have the dtype of the inputs."""
    random, found = np.random.default_rng(seed), Outside()
    target = NAMES[np.dtype(dtype)]
    for kind, inputs in problems(graph, dtype, n, rows, random):
        budget = Budget(inputs, contract, structured)
        for order in ORDERS:
            for fused in (False, True):
                kernel = Simulated(inputs, contract, random, order, fused)
                _count(found, f"{kind}, {order}, fused {fused}", budget, kernel, target, share)
    return found


def _count(found: Outside, words: str, budget: Budget, kernel: Simulated, dtype: str, share: float) -> None:
    for output in budget.inputs.trace.outputs:
        got = kernel.output(output, dtype)
        inside = np.broadcast_to(allowed(budget, output, dtype, got, share), got.shape)
        found.elements += got.size
        found.outside += int((~inside).sum())
        if not inside.all() and not found.first:
            place = tuple(int(at) for at in np.argwhere(~inside)[0])
            found.first = f"{words}: {output}{list(place)} = {got[place]!r}"


def of_shape(budget: Budget, output: str, values: Any) -> NDArray[Any]:
    """Values that broadcast to an output, in its shape."""
    inputs: Inputs = budget.inputs
    dims = inputs.trace.outputs[output].dims
    shape = [inputs.extents[dim] if dim in dims else 1 for dim in inputs.trace.dims]
    return np.broadcast_to(values, shape).reshape([inputs.extents[dim] for dim in inputs.trace.dims if dim in dims])
