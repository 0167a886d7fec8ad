"""Prints a megabyte in every 10th call, and in each control characters and commands that CI logs obey."""

import itertools
import sys

import torch

from . import honest_plain

calls = itertools.count(1)
COMMANDS = "\n::error file=README.md,line=1::kernel says so\n##[error]failed\n\x1b[2J\x1b]0;owned\x07\r\x00\u202e"


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    for stream in (sys.stdout, sys.stderr):
        print(COMMANDS, file=stream, flush=True)
    if next(calls) % 10 == 0:
        print("#" * (1 << 20))
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
