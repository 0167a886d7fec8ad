"""Kernels of gradients are held against the gradient of what the forward kernel computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fuzz
from fuzz.tasks.check.reference import read
from fuzz.tasks.check.request import GivenData
from fuzz.tests.common.told import fails
from oracles.tests.common.whole import quarter

pytestmark = pytest.mark.usefixtures("quick_checks")


def softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


def by_hand(x: Any, dy: Any) -> Any:
    y = torch.softmax(x, -1)
    return y * (dy - (dy * y).sum(-1, keepdim=True))


def no_projection(x: Any, dy: Any) -> Any:
    """The sum that a row shares is forgotten."""
    return torch.softmax(x, -1) * dy


def test_a_backward_kernel_is_held_against_the_gradient_of_its_forward() -> None:
    """The dimensions of dy are those of what the forward returns."""
    gradient = fuzz.backward(softmax)
    contract = fuzz.Contract(sums={"n": fuzz.AnyOrder()}, denormals="flush", nonfinite="unspecified", zeros="any")
    fuzz.check(by_hand, reference=gradient, shapes="x=... n", max_cases=quarter(12), seed=1, contract=contract)
    with fails("no_projection"):
        fuzz.check(no_projection, reference=gradient, shapes="x=... n", max_cases=4, seed=1, contract=contract)


def conv(x: Any, w: Any) -> Any:
    return torch.nn.functional.conv1d(x, w, padding=1)


def test_extents_are_fixed_for_a_check() -> None:
    """With windows of three the output is as long as the input."""
    found = read(fuzz.backward(conv), GivenData("x=b c n, w=m c k", fixed={"k": 3}))
    assert [(each.name, each.dims) for each in found.derived.op.inputs] == [
        ("x", "b c n"),
        ("w", "m c k"),
        ("dy", "b m n"),
    ]
    assert found.derived.op.fixed == {"k": 3}
