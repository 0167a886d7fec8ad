"""Kernels of recurrences are held against a loop in Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fuzz
from fuzz.tests.common.recurrences import by_blocks, decayed
from fuzz.tests.common.told import fails

pytestmark = pytest.mark.usefixtures("quick_checks")


def half_carried(x: Any, a: Any) -> Any:
    """What is carried on is of one block alone."""
    return by_blocks(x, a, carries=False)


def as_tree(x: Any, a: Any) -> Any:
    """Neighbours first, then pairs of them, and so on."""
    step = 1
    while step < x.shape[1]:
        more, kept = a[:, step:] * x[:, :-step], a[:, step:] * a[:, :-step]
        x = torch.cat([x[:, :step], x[:, step:] + more], 1)
        a = torch.cat([a[:, :step], kept], 1)
        step *= 2
    return x


def rounded(x: Any, a: Any) -> Any:
    """What is carried is stored in 16 bits."""
    h, ys = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = (a[:, t] * h + x[:, t]).bfloat16().float()
        ys.append(h)
    return torch.stack(ys, 1)


def one_late(x: Any, a: Any) -> Any:
    """Each place has the factor of the one before."""
    return decayed(x, torch.cat([a[:, :1], a[:, :-1]], 1))


@pytest.mark.parametrize("right", [decayed, by_blocks, as_tree], ids=lambda each: each.__name__)
def test_no_order_is_held_against_a_kernel(right: Any) -> None:
    fuzz.check(right, reference=decayed, shapes="x=b t, a=b t", max_cases=100, seed=1)


@pytest.mark.parametrize("wrong", [half_carried, rounded, one_late], ids=lambda each: each.__name__)
def test_what_is_another_recurrence_is_caught(wrong: Any) -> None:
    with fails(wrong.__name__):
        fuzz.check(wrong, reference=decayed, shapes="x=b t, a=b t", max_cases=100, seed=1)
