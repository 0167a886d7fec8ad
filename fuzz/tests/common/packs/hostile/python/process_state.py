"""Changes folder, environment variables, the file mask, and what SIGTERM and SIGINT do."""

import itertools
import os
import signal

import torch

from . import honest_plain

calls = itertools.count(1)


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    if next(calls) == 3:
        os.chdir("/")
        os.environ.clear()
        os.umask(0o777)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
