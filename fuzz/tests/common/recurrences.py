"""A recurrence as a loop in Python, and as a kernel in blocks."""

from __future__ import annotations

from typing import Any

import torch


def decayed(x: Any, a: Any) -> Any:
    h, ys = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = a[:, t] * h + x[:, t]
        ys.append(h)
    return torch.stack(ys, 1)


def by_blocks(x: Any, a: Any, *, carries: bool = True) -> Any:
    """Products of a and sums in blocks of four, which are carried on."""
    h, ys = torch.zeros_like(x[:, 0]), []
    for start in range(0, x.shape[1], 4):
        own, kept = x[:, start : start + 4].clone(), a[:, start : start + 4].cumprod(1)
        for t in range(1, own.shape[1]):
            own[:, t] += a[:, start + t] * own[:, t - 1]
        ys.append(own + kept * h[:, None])
        h = ys[-1][:, -1] if carries else own[:, -1]
    return torch.cat(ys, 1)
