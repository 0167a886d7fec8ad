"""Kernels by well-known algorithms pass where a reference writes the plain formula, and what cancels fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fuzz.tasks.check.reference import read
from fuzz.tasks.check.request import GivenData
from oracles.problem import Problem
from oracles.truth import Truth

Moments = Callable[[Any], tuple[Any, Any]]
"""A function that returns the mean and the sum of squared deviations from it."""


def updated(x: Any) -> tuple[Any, Any]:
    """Welford's algorithm."""
    mean = squares = torch.zeros_like(x[..., 0])
    for at in range(x.shape[-1]):
        apart = x[..., at] - mean
        mean = mean + apart / (at + 1)
        squares = squares + apart * (x[..., at] - mean)
    return mean, squares


def merged(x: Any) -> tuple[Any, Any]:
    """Blocks in two passes, merged as Chan does."""
    count, mean, squares = 0, torch.zeros_like(x[..., 0]), torch.zeros_like(x[..., 0])
    for block in x.split(8, -1):
        own, n = block.mean(-1), block.shape[-1]
        apart, count = own - mean, count + n
        squares = squares + (block - own[..., None]).square().sum(-1) + apart * apart * ((count - n) * n / count)
        mean = mean + apart * (n / count)
    return mean, squares


def textbook(x: Any) -> tuple[Any, Any]:
    """The mean of squares less the square of the mean, which cancels."""
    n = x.shape[-1]
    return x.mean(-1), ((x * x).mean(-1) - x.mean(-1).square()) * n


def variance(x: Any) -> Any:
    return x.var(-1, unbiased=False)


def written(x: Any) -> Any:
    return ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1)


def layer_norm(x: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def group_norm(x: Any) -> Any:
    return torch.nn.functional.group_norm(x[:, :, None], 1)[:, :, 0]


def normal(x: Any, of: Moments) -> Any:
    mean, squares = of(x)
    return (x - mean[..., None]) * torch.rsqrt(squares[..., None] / x.shape[-1] + 1e-5)


def _results(reference: Callable[..., Any], shapes: str, given: Mapping[str, NDArray[Any]], got: Any) -> str:
    found = read(reference, GivenData(shapes))
    problem = Problem(found.op, {}, given, {"y": "f32"}, structured=False, known=found.derived.op)
    (check,) = Truth(problem, confirms=False).check(found.contract, {"y": np.ascontiguousarray(got.numpy())})
    return check.result


@pytest.mark.parametrize("reference", [variance, written, layer_norm, group_norm], ids=lambda each: each.__name__)
@pytest.mark.parametrize("of", [updated, merged, textbook], ids=lambda each: each.__name__)
def test_a_variance_may_be_updated_and_not_be_what_is_left_of_two_moments(
    reference: Callable[..., Any], of: Moments
) -> None:
    """The mean is 1,000 deviations: nothing else tells the algorithms apart, and a two-pass kernel is 500 times as
    near."""
    x = torch.from_numpy((np.random.default_rng(1).normal(size=(3, 60)) + 1e3).astype(np.float32))
    made = normal(x, of) if reference in (layer_norm, group_norm) else of(x)[1] / x.shape[-1]
    said = _results(reference, "x=b n", {"x": x.numpy()}, made)
    assert said == ("numeric" if of is textbook else "pass")


@pytest.mark.parametrize("n", [250, 4000])
def test_long_rows_do_not_hide_what_cancels(n: int) -> None:
    """Welford's errors grow with the root of n where terms do not drift, and with n where they do."""
    x = torch.from_numpy((np.random.default_rng(1).normal(size=(3, n)) + 1e3).astype(np.float32))
    for drifting in (x, x.sort(-1).values):
        assert _results(variance, "x=b n", {"x": drifting.numpy()}, updated(drifting)[1] / n) == "pass"
    assert _results(variance, "x=b n", {"x": x.numpy()}, textbook(x)[1] / n) == "numeric"


def average(x: Any, a: Any) -> Any:
    return _scanned(x, lambda h, t: (1 - a[:, t]) * h + a[:, t] * x[:, t])


def of_constants(x: Any, a: Any) -> Any:
    return _scanned(x, lambda h, t: 0.1 * h + 0.9 * (x[:, t] * a[:, t]))


def gated(x: Any, a: Any) -> Any:
    return _scanned(x, lambda h, t: a[:, t] * h + (1 - a[:, t]) * x[:, t])


def _scanned(x: Any, step: Callable[[Any, int], Any]) -> Any:
    h, found = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = step(h, t)
        found.append(h)
    return torch.stack(found, 1)


@pytest.mark.parametrize(
    ("reference", "share", "term"),
    [
        (average, lambda a: a, lambda x, a: x),
        (of_constants, lambda a: 0.9, lambda x, a: x * a),
        (gated, lambda a: 1 - a, lambda x, a: x),
    ],
    ids=lambda each: each.__name__,
)
def test_a_moving_average_may_step_towards_what_comes(reference: Any, share: Any, term: Any) -> None:
    """From a large state to a small term by a share near one the step loses what the shares keep."""
    random = np.random.default_rng(1)
    x = torch.from_numpy((random.normal(size=(8, 20)) * 10.0 ** random.integers(-3, 4, (8, 20))).astype(np.float32))
    a = torch.from_numpy((1 - random.random((8, 20)) / 256).astype(np.float32))
    a = 1 - a if reference is gated else a
    given = {"x": x.numpy(), "a": a.numpy()}

    def stepped(off: float) -> Any:
        def step(h: Any, t: int) -> Any:
            return h + share(a[:, t]) * (term(x[:, t], a[:, t]) - h * (1 + off))

        return _scanned(x, step)

    shapes = "x=b t, a=b t"
    assert _results(reference, shapes, given, stepped(0.0)) == "pass"
    assert _results(reference, shapes, given, stepped(2.0**-16)) == "numeric"
