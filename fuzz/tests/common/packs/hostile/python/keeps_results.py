"""Keeps a megabyte of each call in cycles that nobody collects, 1 GiB at most."""

import gc
import itertools
import typing

import torch

from . import honest_plain

calls = itertools.count(1)
history: list[typing.Any] = []


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    gc.disable()
    if next(calls) <= 1024:
        entry: list[typing.Any] = [torch.ones(1 << 18)]
        entry.append(entry)
        history.append(entry)
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
