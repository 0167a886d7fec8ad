"""Identities that kernels use are ways to what a reference writes, in whatever order it writes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fuzz.references.rewrites import WEAKER
from fuzz.tasks.check.reference import read
from fuzz.tasks.check.request import GivenData
from fuzz.tests.common.identities import PAIRS, Pair
from oracles.formula.contract import Contract
from oracles.problem import Problem
from oracles.truth import Truth


def gelu_called(x: Any) -> Any:
    return functional.gelu(x, approximate="tanh")


def gelu_written(x: Any) -> Any:
    return x * (torch.tanh(0.7978845608 * (x + 0.044715 * x**3)) + 1) * 0.5


def gelu_halved(x: Any) -> Any:
    return 0.5 * x * (1.0 + torch.tanh((x + x * x * x * 0.044715) * 0.7978845608))


def silu(x: Any) -> Any:
    return functional.silu(x)


def silu_written(x: Any) -> Any:
    return torch.sigmoid(x) * x


def swiglu(x: Any, t: Any) -> Any:
    return functional.silu(x) * t


def hardswish(x: Any) -> Any:
    return x * torch.clamp(x + 3, 0, 6) / 6


def hardswish_relu6(x: Any) -> Any:
    return x * functional.relu6(x + 3) / 6


def softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


def softmax_written(x: Any) -> Any:
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def bce(x: Any, t: Any) -> Any:
    return functional.binary_cross_entropy_with_logits(x, t, reduction="none")


def saturation(x: Any, t: Any) -> Any:
    high, low = torch.maximum(x, t), torch.minimum(x, t)
    return (high - low) / high


def elu(x: Any) -> Any:
    return functional.elu(x)


def rest(x: Any) -> Any:
    return torch.erfc(x)


def tangent(x: Any) -> Any:
    return torch.tan(x)


def divergence(x: Any, t: Any) -> Any:
    return t * (torch.log(t) - torch.log(x))


def spread(x: Any) -> Any:
    return x.var(-1)


def moments(x: Any) -> Any:
    return x.mean(-1), x.var(-1, unbiased=False)


def by_sums(x: Any) -> Any:
    return ((x.sum(-1, keepdim=True) / x.shape[-1] - x) ** 2).sum(-1) / x.shape[-1]


def of_sizes(x: Any) -> Any:
    return (x - x.mean(-1, keepdim=True)).abs().square().mean(-1)


@pytest.mark.some(5)
@pytest.mark.parametrize(
    ("reference", "way"),
    [
        (gelu_called, "by sigmoid"),
        (gelu_written, "by sigmoid"),
        (gelu_halved, "by sigmoid"),
        (silu, "by tanh"),
        (silu_written, "by tanh"),
        (swiglu, "by tanh"),
        (hardswish, "by slope"),
        (hardswish_relu6, "by slope"),
        (softmax, "by lse"),
        (softmax_written, "by lse"),
        (bce, "by log1p"),
        (saturation, "share"),
        (elu, "by exp"),
        (rest, "by erf"),
        (tangent, "by sine"),
        (divergence, "quotient"),
        (spread, "welford"),
        (moments, "welford"),
        (by_sums, "welford"),
        (of_sizes, "welford"),
    ],
)
def test_an_identity_is_a_way_and_is_taken_unless_it_is_weaker(reference: Callable[..., Any], way: str) -> None:
    shapes = "x=... n, t=... n" if reference.__code__.co_argcount > 1 else "x=... n"
    found = read(reference, GivenData(shapes))
    [local] = [local for local, ways in found.derived.op.algorithms.items() if way in ways]
    assert (way in found.contract.algorithm.get(local, ())) == (way not in WEAKER)


@pytest.mark.some(4)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_right_kernel_passes_or_has_a_name(pair: Pair) -> None:
    """It passes in each of sixteen draws with nothing declared, or in all of them by one way to a local, or with
    products multiplied out: never is it just wrong."""
    names = [*inspect.signature(pair.reference).parameters]
    dims = [each.strip() for each in pair.dims.split(",")] * len(names)
    shapes = ", ".join(f"{name}={each}" for name, each in zip(names, dims, strict=False))
    found = read(pair.reference, GivenData(shapes))
    op, contract = found.derived.op, found.contract
    ways = ({**contract.algorithm, local: way} for local, ways in op.algorithms.items() for way in ways)
    named = [replace(contract, expanded=True), *(replace(contract, algorithm=way) for way in ways)]
    [output], runs = op.outputs, list[tuple[Truth, Mapping[str, Any]]]()
    for given in _drawn(names, pair.values):
        made = pair.kernel(*(torch.from_numpy(each) for each in given.values())).numpy()
        problem = Problem(op.name, {}, given, {output.name: "f32"}, structured=False, known=op)
        runs.append((Truth(problem, confirms=False), {output.name: np.ascontiguousarray(made)}))

    def passes(contract: Contract) -> bool:
        return all(truth.check(contract, got)[0].result == "pass" for truth, got in runs)

    assert passes(contract) or any(map(passes, named))


def test_a_running_mean_is_told_as_it_is_and_by_no_mean_in_f64() -> None:
    """A mean in f64 is rounded to f32 alike for all elements of its row, so that the squares lose less by it."""
    found = read(moments, GivenData("x=... n"))
    of = {"x": np.array([[-4194294.75, -4194337.0]], np.float32)}
    made = {"y0": np.array([-4194316.0], np.float32), "y1": np.array([443.625], np.float32)}
    truth = Truth(Problem(found.op, {}, of, {"y0": "f32", "y1": "f32"}, structured=False, known=found.derived.op))
    widths = {}
    for name, contract in {
        "as declared": replace(found.contract, algorithm={}),
        "in f64": replace(found.contract, algorithm={}, dtypes={"y0": "f64"}),
        "welford": replace(found.contract, algorithm={"y1": "welford"}),
    }.items():
        low, high = truth.enclosures(contract, False)["y1"].outer
        widths[name] = float((high - low)[0])
    assert widths["in f64"] < 3 * widths["as declared"] < widths["welford"]
    assert truth.check(replace(found.contract, algorithm={"y1": "welford"}), made)[1].result == "pass"


def _drawn(names: Sequence[str], values: str) -> Iterator[Mapping[str, NDArray[np.float32]]]:
    """Inputs of several sizes, near zero and far from it."""
    dice = np.random.default_rng(1)
    for scale, offset in product((1.0, 8.0, 1e-3, 30.0), (0.0, 0.0, 0.0, 100.0)):
        given = {name: dice.normal(size=(4, 24)) * scale + offset * (not place) for place, name in enumerate(names)}
        if values == "positive":
            given = {name: np.abs(each) + 1e-6 for name, each in given.items()}
        if values == "shares":
            given["t"] = dice.random((4, 24))
        yield {name: each.astype(np.float32) for name, each in given.items()}
