"""Kernels of recurrences are held against a loop in Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fuzz

pytestmark = pytest.mark.usefixtures("quick_checks")


def decayed(x: Any, a: Any) -> Any:
    h, ys = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = a[:, t] * h + x[:, t]
        ys.append(h)
    return torch.stack(ys, 1)


def by_blocks(x: Any, a: Any) -> Any:
    """Products of a and sums in blocks of four, which are carried on."""
    h, ys = torch.zeros_like(x[:, 0]), []
    for start in range(0, x.shape[1], 4):
        own, kept = x[:, start : start + 4].clone(), a[:, start : start + 4].cumprod(1)
        for t in range(1, own.shape[1]):
            own[:, t] += a[:, start + t] * own[:, t - 1]
        ys.append(own + kept * h[:, None])
        h = ys[-1][:, -1]
    return torch.cat(ys, 1)


def test_a_kernel_in_blocks_is_right() -> None:
    fuzz.check(by_blocks, reference=decayed, shapes="x=b t, a=b t", max_cases=8, seed=1)
