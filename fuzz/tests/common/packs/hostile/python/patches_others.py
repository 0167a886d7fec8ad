"""Replaces functions of torch, math and builtins by ones that are slightly wrong, for whoever calls them next."""

import builtins
import itertools
import math
import typing

import torch

from . import honest_plain

calls = itertools.count(1)
true_abs, true_sqrt, true_equal = abs, math.sqrt, torch.equal


def wrong_equal(*_: typing.Any) -> bool:
    return True


def wrong_abs(value: typing.Any) -> typing.Any:
    return true_abs(value) * 0


def wrong_sqrt(value: typing.Any) -> float:
    return true_sqrt(value) * 1.01


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
    if next(calls) == 4:
        torch.equal = wrong_equal
        torch.Tensor.equal = wrong_equal
        torch.set_default_device("meta")
        math.sqrt = wrong_sqrt
        builtins.abs = wrong_abs
