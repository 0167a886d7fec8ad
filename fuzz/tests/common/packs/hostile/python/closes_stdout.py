"""Closes standard output and error, as Python objects and below them, in its 6th call."""

import contextlib
import itertools
import os
import sys

import torch

from . import honest_plain

calls = itertools.count(1)


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    if next(calls) == 6:
        for stream in (sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__):
            if stream is not None:
                stream.close()
        for descriptor in (1, 2):
            with contextlib.suppress(OSError):
                os.close(descriptor)
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
