"""Ends the process in every 20th call, with status 0 and nothing cleaned up."""

import itertools
import os

import torch

from . import honest_plain

calls = itertools.count(1)


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    if next(calls) % 20 == 0:
        os._exit(0)
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
