"""Makes errors of the warnings and floating-point events of everybody in the process."""

import itertools
import warnings

import numpy
import torch

from . import honest_plain

calls = itertools.count(1)


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
    if next(calls) == 2:
        numpy.seterr(all="raise")
        warnings.simplefilter("error")
