"""Leaves a program running in every 10th call, for a minute, 5 at most, with all descriptors open."""

import itertools
import subprocess

import torch

from . import honest_plain

calls = itertools.count(1)
started: list[subprocess.Popen[bytes]] = []


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    if next(calls) % 10 == 0 and len(started) < 5:
        started.append(subprocess.Popen(["sleep", "60"], close_fds=False, start_new_session=True))
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
