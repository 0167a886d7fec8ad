"""References that kernels of several tests are held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import fuzz
from oracles.tests.common.whole import quarter


def rms_norm(x: Any, w: Any) -> Any:
    """y = x w / sqrt(mean(x^2) + eps)."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


def checked(kernel: Callable[..., Any], reference: Callable[..., Any] = rms_norm, **more: Any) -> None:
    """Check a kernel in few cases."""
    fuzz.check(kernel, reference=reference, **{"max_cases": quarter(40), "seed": 1, **more})
