"""Identities that kernels use are ways to what a reference writes, in whatever order it writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from fuzz.uses.check.reference import read
from oracles.reference.identities import WEAKER


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
    ],
)
def test_an_identity_is_a_way_and_is_taken_unless_it_is_weaker(reference: Callable[..., Any], way: str) -> None:
    shapes = "x=... n, t=... n" if reference.__code__.co_argcount > 1 else "x=... n"
    found = read(reference, shapes, None, None, None)
    [local] = [local for local, ways in found.derived.op.algorithms.items() if way in ways]
    assert (way in found.contract.algorithm.get(local, ())) == (way not in WEAKER)
