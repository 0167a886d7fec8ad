"""What a reference writes out has the other ways that kernels take: in torch, NumPy and JAX alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pytest
import torch

from fuzz.references.derive import derive
from oracles.algorithm import traced


def in_torch(x: Any, w: Any, b: Any) -> Any:
    mean = x.mean(-1, keepdim=True)
    var = (x - mean).square().mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(var + 1e-5) * w + b


def in_numpy(x: Any, w: Any, b: Any) -> Any:
    return b + w * ((x - np.mean(x, -1, keepdims=True)) / np.sqrt(np.var(x, -1, keepdims=True) + 1e-5))


def in_jax(x: Any, w: Any, b: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def log_shares(x: Any) -> Any:
    away = x - x.amax(-1, keepdim=True)
    return away - away.exp().sum(-1, keepdim=True).log()


def log_softmax(x: Any) -> Any:
    return jax.nn.log_softmax(x)


def horner(x: Any, w: Any, b: Any) -> Any:
    y = (1.0 - b) - x * (0.25 - x * w)
    return y * x + b


_NORM = {"normal": "apart", "y": "folded", "var": "welford"}
_WAYS: Mapping[Callable[..., Any], Mapping[str, str]] = {
    in_torch: _NORM, in_numpy: _NORM, log_shares: {"y": "by_lse"}, log_softmax: {"y": "by_lse"},
    horner: {"y": "expanded"}, in_jax: {"normal": "apart", "y": "folded", "mean2": "welford"},
}  # fmt: skip


@pytest.mark.some(3)
@pytest.mark.parametrize("reference", _WAYS, ids=lambda each: each.__name__)
def test_known_rewrites_are_ways_to_what_is_written_out(reference: Callable[..., Any]) -> None:
    """All of them have the exact value of the formula: else it would not be traced."""
    op = derive(reference, "x=b n, w=n, b=n" if reference.__code__.co_argcount == 3 else "x=b n").op
    assert {local: [*ways] for local, ways in op.algorithms.items()} == {
        local: [way] for local, way in _WAYS[reference].items()
    }
    for local, way in _WAYS[reference].items():
        assert local in traced(op, [each.name for each in op.operands], {local: way}).locals


def shifted_twice(x: Any, y: Any) -> Any:
    return (x * y + 1.0) * (x + y) + 1.0


def covariance(x: Any, y: Any) -> Any:
    return (x - x.mean(-1, keepdim=True)) * (y - y.mean(-1, keepdim=True))


def away(x: Any) -> Any:
    return x - x.mean(-1, keepdim=True), (x - x.mean(-1, keepdim=True)) * x.sqrt().mean(-1, keepdim=True)


@pytest.mark.parametrize(
    ("reference", "shapes"), [(covariance, "x=b n, y=b n"), (shifted_twice, "x=b n, y=b n"), (away, "x=b n")]
)
def test_nothing_else_is_taken_apart(reference: Callable[..., Any], shapes: str) -> None:
    """A covariance that is a difference of products is no normal row: kernels of it lose all digits."""
    assert derive(reference, shapes).op.algorithms == {}
