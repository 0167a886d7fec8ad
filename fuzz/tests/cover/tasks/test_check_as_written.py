"""References as people write them are read: a right kernel passes, and a wrong one fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import fuzz
from oracles.tests.common.whole import quarter

pytestmark = pytest.mark.usefixtures("quick_checks")
Kernel = Callable[..., Any]


class Pair(NamedTuple):
    """A reference, and kernels of it."""

    reference: Kernel
    right: Kernel
    wrong: Kernel
    shapes: str
    given: Mapping[str, Any] = {}


def gathered_but_for_the_last_row(x: Any, i: Any) -> Any:
    y = x.gather(0, i)
    y[-1] = x[-1]
    return y


def stored(x: Any, i: Any, s: Any) -> Any:
    """The first of several rows for one slot stays."""
    y = x.clone()
    for row in reversed(range(len(i))):
        y[i[row]] = s[row]
    return y


def added(x: Any, i: Any, s: Any) -> Any:
    return x.clone().index_add_(0, i, s)


def without_duplicates(s: Any, i: Any) -> Any:
    return torch.zeros(s.shape).scatter(0, i, s)


def hypotenuse(z: Any) -> Any:
    return np.hypot(z[..., 0], z[..., 1])


def root_of_squares(z: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.sqrt(z[..., 0] * z[..., 0] + z[..., 1] * z[..., 1])


def top_left(q: Any, k: Any) -> Any:
    return torch.where(torch.ones(q.shape[0], k.shape[0]).tril() > 0, q @ k.T, -torch.inf)


def bottom_right(q: Any, k: Any) -> Any:
    sq, sk = q.shape[0], k.shape[0]
    return torch.where(torch.arange(sk) <= torch.arange(sq)[:, None] + (sk - sq), q @ k.T, -torch.inf)


def grouped(x: Any, w: Any) -> Any:
    return torch.nn.functional.conv1d(x, w, groups=4)


def grouped_by_hand(x: Any, w: Any) -> Any:
    parts = zip(x.chunk(4, 1), w.chunk(4, 0), strict=True)
    return torch.cat([torch.nn.functional.conv1d(a, b) for a, b in parts], 1)


def grouped_in_reverse(x: Any, w: Any) -> Any:
    return grouped(x, w.flip(0))


PAIRS = {
    "gather": Pair(
        lambda x, i: x.gather(0, i),
        lambda x, i: torch.take_along_dim(x, i, 0),
        gathered_but_for_the_last_row,
        "x=m n, i=m n",
    ),
    "a causal mask of other lengths": Pair(bottom_right, bottom_right, top_left, "q=sq d, k=sk d"),
    "scatter_add": Pair(
        lambda s, i: torch.zeros_like(s).scatter_add(0, i, s),
        lambda s, i: torch.zeros(s.shape).scatter_add(0, i, s),
        without_duplicates,
        "s=m n, i=m n",
    ),
    "groups": Pair(grouped, grouped_by_hand, grouped_in_reverse, "x=b 4c n, w=4m c k"),
    "index_copy": Pair(lambda x, i, s: x.index_copy(0, i, s), stored, added, "x=n d, i=t, s=t d"),
    "a complex magnitude": Pair(
        lambda z: torch.view_as_complex(z).abs(), hypotenuse, root_of_squares, "z=n c",
        {"values": "any", "fixed": {"c": 2}, "arrays": "numpy"},
    ),
    "fmod": Pair(lambda x: torch.fmod(x, 3.0), lambda x: torch.fmod(x, 3.0), lambda x: x % 3.0, "x=b n"),
    "hypot": Pair(
        lambda x, y: torch.hypot(x, y), lambda x, y: torch.sqrt(x * x + y * y),
        lambda x, y: torch.sqrt(x * x + abs(y)), "x=b n, y=b n",
    ),
    "a permutation of all rows": Pair(
        lambda x, p: x[p], lambda x, p: x.index_select(0, p), lambda x, p: x[p.flip(0)], "x=n d, p=n"
    ),
    "remainder": Pair(
        lambda x: x % 3.0, lambda x: x - 3 * torch.floor(x / 3), lambda x: torch.fmod(x, 3.0), "x=b n"
    ),
    "a quotient rounded down": Pair(
        lambda x, y: x // (y.abs() + 1), lambda x, y: torch.floor(x / (y.abs() + 1)),
        lambda x, y: torch.trunc(x / (y.abs() + 1)), "x=b n, y=b n",
    ),
}  # fmt: skip


def _check(name: str, kernel: Kernel) -> None:
    pair = PAIRS[name]
    fuzz.check(kernel, reference=pair.reference, shapes=pair.shapes, max_cases=quarter(24), seed=1, **pair.given)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", PAIRS)
def test_a_right_kernel_passes(name: str) -> None:
    _check(name, PAIRS[name].right)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", PAIRS)
def test_a_wrong_kernel_fails(name: str) -> None:
    with pytest.raises(fuzz.CheckFailed):
        _check(name, PAIRS[name].wrong)
