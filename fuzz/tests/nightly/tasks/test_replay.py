"""Right kernels of what no formula is read from pass a replay, and wrong ones do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fuzz
from fuzz.tests.common.told import fails

pytestmark = pytest.mark.usefixtures("quick_checks")


def solve(a: Any, b: Any) -> Any:
    return torch.linalg.solve(a, b)


def by_factors(a: Any, b: Any) -> Any:
    factors, pivots = torch.linalg.lu_factor(a)
    return torch.linalg.lu_solve(factors, pivots, b)


def last_row(a: Any, b: Any) -> Any:
    """The last row is off by 2^-10."""
    found = torch.linalg.solve(a, b)
    return torch.cat([found[:-1], found[-1:] * (1 - 2.0**-10)])


def transposed(a: Any, b: Any) -> Any:
    return torch.linalg.solve(a.mT, b)


def rnn(x: Any, w: Any) -> Any:
    h, ys = torch.zeros(len(x), len(w), dtype=x.dtype), []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] + h @ w)
        ys.append(h)
    return torch.stack(ys, 1)


def columns(x: Any, w: Any) -> Any:
    """One column of the weights after the other."""
    h, ys = torch.zeros(len(x), len(w), dtype=x.dtype), []
    for t in range(x.shape[1]):
        h = torch.tanh(torch.stack([(h * w[:, j]).sum(-1) for j in range(len(w))], -1) + x[:, t])
        ys.append(h)
    return torch.stack(ys, 1)


def rounded_weights(x: Any, w: Any) -> Any:
    return rnn(x, w.bfloat16().float())


def rounded_state(x: Any, w: Any) -> Any:
    h, ys = torch.zeros(len(x), len(w), dtype=x.dtype), []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] + h @ w).half().float()
        ys.append(h)
    return torch.stack(ys, 1)


SHAPES = {solve: "a=n n, b=n k", rnn: "x=b t d, w=d d"}


@pytest.mark.parametrize(("kernel", "reference"), [(solve, solve), (by_factors, solve), (rnn, rnn), (columns, rnn)])
def test_right_kernels_pass(kernel: Callable[..., Any], reference: Callable[..., Any]) -> None:
    fuzz.check(kernel, reference=reference, shapes=SHAPES[reference], oracle="replay", max_cases=60, seed=1)


@pytest.mark.parametrize(
    ("kernel", "reference"), [(last_row, solve), (transposed, solve), (rounded_weights, rnn), (rounded_state, rnn)]
)
def test_wrong_kernels_fail(kernel: Callable[..., Any], reference: Callable[..., Any]) -> None:
    with fails(kernel.__name__):
        fuzz.check(kernel, reference=reference, shapes=SHAPES[reference], oracle="replay", max_cases=60, seed=1)
