"""Takes five seconds to import, as large libraries do; nothing else is wrong."""

import time

import torch

from . import honest_plain

time.sleep(5)


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
