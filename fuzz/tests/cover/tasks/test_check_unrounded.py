"""Selection, counting and search: references that round nothing are judged exactly, with ties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from oracles.tests.common.whole import quarter

Kernel = Callable[..., Any]


def histogram(x: Any) -> Any:
    """Return the counts of eight bins from -2 to 2."""
    return torch.histc(x, bins=8, min=-2.0, max=2.0)


def tenths(x: Any) -> Any:
    """Return the counts of ten bins from 0 to 1, whose edges are no numbers of f32."""
    return np.histogram(x, bins=10, range=(0.0, 1.0))[0]


def unique(x: Any) -> Any:
    """Return the distinct elements in order, the place of each element among them, and their counts."""
    return torch.unique(x, return_inverse=True, return_counts=True)


def left(edges: Any, x: Any) -> Any:
    """Return the number of edges below each element."""
    return torch.searchsorted(edges, x)


def right(x: Any, edges: Any) -> Any:
    """Return the number of edges up to each element."""
    return torch.bucketize(x, edges, right=True)


def counts(i: Any) -> Any:
    """Return how often each number up to 15 occurs."""
    return torch.bincount(i, minlength=16)


def median(x: Any) -> Any:
    """Return the lower median of each row."""
    return x.median(-1).values


def _by_comparison(x: Any) -> Any:
    edges = torch.arange(9) / 2.0 - 2.0
    inside = (x[None] >= edges[:-1, None]) & (x[None] < edges[1:, None])
    inside[-1] |= x == 2.0
    return inside.sum(-1).to(x.dtype)


def _by_floor(x: Any) -> Any:
    place = ((x + 2.0) * 2.0).floor().clamp(max=7).long()[(x >= -2.0) & (x <= 2.0)]
    return torch.bincount(place, minlength=8).to(x.dtype)


def _in_single(x: Any) -> Any:
    place = np.minimum((x * np.float32(10.0)).astype(np.int64), 9)[(x >= 0.0) & (x <= 1.0)]
    return np.bincount(place, minlength=10)


def _of_sorted(x: Any) -> Any:
    order = np.sort(x, kind="stable")
    first = np.concatenate([[True], order[1:] != order[:-1]])
    values = order[first]
    return values, np.searchsorted(values, x), np.diff(np.append(np.flatnonzero(first), x.size))


def _one_by_one(edges: Any, x: Any) -> Any:
    return (~(edges[None, :] >= x[:, None])).sum(1)


def _bisected(x: Any, edges: Any) -> Any:
    low, high = torch.zeros_like(x, dtype=torch.int64), torch.full_like(x, len(edges), dtype=torch.int64)
    while bool((low < high).any()):
        middle = (low + high) // 2
        above = edges[middle.clamp(max=len(edges) - 1)] > x
        low, high = torch.where((low < high) & ~above, middle + 1, low), torch.where((low < high) & above, middle, high)
    return low


def _middle(x: Any) -> Any:
    return np.where(np.isnan(x).any(-1), np.nan, np.sort(x, -1)[..., (x.shape[-1] - 1) // 2])


def _least_but_half(x: Any) -> Any:
    least = x.kthvalue((x.shape[-1] + 1) // 2).values
    return torch.where(x.isnan().any(-1), torch.nan, least)


RIGHT: list[tuple[Kernel, str, Kernel, str]] = [
    (histogram, "x=n", histogram, "torch"),
    (histogram, "x=n", lambda x: np.histogram(x, bins=8, range=(-2.0, 2.0))[0].astype(x.dtype), "numpy"),
    (histogram, "x=n", _by_comparison, "torch"),
    (histogram, "x=n", _by_floor, "torch"),
    (tenths, "x=n", lambda x: np.histogram(x, bins=10, range=(0.0, 1.0))[0], "numpy"),
    (tenths, "x=n", lambda x: torch.histc(x, 10, 0.0, 1.0).long(), "torch"),
    (tenths, "x=n", _in_single, "numpy"),
    (unique, "x=n", unique, "torch"),
    (unique, "x=n", lambda x: np.unique(x, return_inverse=True, return_counts=True), "numpy"),
    (unique, "x=n", _of_sorted, "numpy"),
    (left, "edges=m, x=n", left, "torch"),
    (left, "edges=m, x=n", np.searchsorted, "numpy"),
    (left, "edges=m, x=n", _one_by_one, "torch"),
    (right, "x=b n, edges=m", right, "torch"),
    (right, "x=b n, edges=m", np.digitize, "numpy"),
    (right, "x=b n, edges=m", _bisected, "torch"),
    (counts, "i=n", lambda i: np.bincount(i, minlength=16), "numpy"),
    (counts, "i=n", lambda i: (i[:, None] == torch.arange(max(16, int(i.max()) + 1))).sum(0), "torch"),
    (counts, "i=n", lambda i: torch.zeros(max(16, int(i.max()) + 1), dtype=torch.int64).index_add(
        0, i, torch.ones_like(i)), "torch"),
    (median, "x=b n", median, "torch"),
    (median, "x=b n", _middle, "numpy"),
    (median, "x=b n", _least_but_half, "torch"),
]  # fmt: skip


def _unclosed(x: Any) -> Any:
    edges = torch.arange(9) / 2.0 - 2.0
    return ((x[None] >= edges[:-1, None]) & (x[None] < edges[1:, None])).sum(-1).to(x.dtype)


def _closed_above(x: Any) -> Any:
    edges = torch.arange(9) / 2.0 - 2.0
    inside = (x[None] > edges[:-1, None]) & (x[None] <= edges[1:, None])
    inside[0] |= x == -2.0
    return inside.sum(-1).to(x.dtype)


def _clamped(x: Any) -> Any:
    place = ((x + 2.0) * 2.0).clamp(0, 7).floor().long()
    return torch.bincount(place, minlength=8).to(x.dtype)


def _saturated(x: Any) -> Any:
    return histogram(x).clamp(max=15)


def _short_tail(x: Any) -> Any:
    return histogram(x[: x.numel() // 4 * 4])


def _close_ones(x: Any) -> Any:
    values, inverse, count = unique(x)
    near = torch.cat([torch.ones(1, dtype=torch.bool), values.diff() > 1e-6 * values[1:].abs()])
    group = near.cumsum(0) - 1
    return values[near], group[inverse], torch.zeros(int(near.sum()), dtype=torch.int64).index_add(0, group, count)


def _first_count(x: Any) -> Any:
    values, inverse, count = unique(x)
    return values, inverse, torch.cat([count[:-1], count[-1:] - (count[-1:] > 3).long()])


def _backwards(x: Any) -> Any:
    values, inverse, count = unique(x)
    return values.flip(0), inverse, count.flip(0)


def _consecutive(x: Any) -> Any:
    return torch.unique_consecutive(x, return_inverse=True, return_counts=True)


def _half_way(edges: Any, x: Any) -> Any:
    return torch.searchsorted(edges.bfloat16(), x.bfloat16())


def _few_steps(edges: Any, x: Any) -> Any:
    return left(edges, x).clamp(max=127)


WRONG: dict[str, tuple[Kernel, str, Kernel]] = {
    "last edge is open": (histogram, "x=n", _unclosed),
    "bins are closed above": (histogram, "x=n", _closed_above),
    "others are counted in the last bins": (histogram, "x=n", _clamped),
    "counts saturate": (histogram, "x=n", _saturated),
    "drops a tail": (histogram, "x=n", _short_tail),
    "one bin more": (histogram, "x=n", lambda x: torch.histc(x, bins=8, min=-2.0, max=2.5)),
    "takes close ones for equal": (unique, "x=n", _close_ones),
    "loses a count": (unique, "x=n", _first_count),
    "of neighbours alone": (unique, "x=n", _consecutive),
    "not in order": (unique, "x=n", _backwards),
    "right for left": (left, "edges=m, x=n", lambda edges, x: torch.searchsorted(edges, x, right=True)),
    "in bf16": (left, "edges=m, x=n", _half_way),
    "stops at 127": (left, "edges=m, x=n", _few_steps),
    "never the end": (left, "edges=m, x=n", lambda edges, x: left(edges, x).clamp(max=len(edges) - 1)),
    "left for right": (right, "x=b n, edges=m", lambda x, edges: torch.bucketize(x, edges)),
    "within an epsilon": (right, "x=b n, edges=m", lambda x, edges: right(x + 1e-6, edges)),
    "in 8 bits": (counts, "i=n", lambda i: counts(i) & 255),
    "drops the last": (counts, "i=n", lambda i: counts(torch.cat([i[:-1], i[-1:] * 0]))),
    "upper median": (median, "x=b n", lambda x: x.sort(-1).values[..., x.shape[-1] // 2]),
    "mean of both": (median, "x=b n", lambda x: x.quantile(0.5, dim=-1)),
}  # fmt: skip

_NUMBERS = {"i": torch.tensor([3, 1, 0, 15, 7])}


def _checked(kernel: Kernel, reference: Kernel, shapes: str, **given: Any) -> None:
    data = {"example_inputs": _NUMBERS} if reference is counts else {"shapes": shapes}
    fuzz.check(kernel, reference=reference, oracle="replay", max_cases=quarter(80), **data, **given)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("reference", "shapes", "kernel", "arrays", "values"),
    # Libraries differ in whether two NaNs are one element.
    [(*each, values) for each in RIGHT for values in ("finite", "any") if values == "finite" or each[0] is not unique],
)
def test_right_kernels_of_several_libraries_pass(
    reference: Kernel, shapes: str, kernel: Kernel, arrays: str, values: str
) -> None:
    _checked(kernel, reference, shapes, arrays=arrays, values=values, seed=1)


@pytest.mark.some(3)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_found(name: str) -> None:
    reference, shapes, kernel = WRONG[name]
    with pytest.raises(fuzz.CheckFailed, match=r"must be|has the shape"):
        _checked(kernel, reference, shapes, seed=1)


def test_edges_that_are_not_in_order_are_never_drawn() -> None:
    met = list[bool]()

    def kernel(edges: Any, x: Any) -> Any:
        met.append(bool((edges.diff() >= 0).all()))
        return left(edges, x)

    _checked(kernel, left, "edges=m, x=n", seed=2)
    assert len(met) >= quarter(80)
    assert all(met)
