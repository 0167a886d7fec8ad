"""Leaves threads that the interpreter waits for when it ends: one in every 10th call, for a minute, 8 at most."""

import itertools
import threading
import time

import torch

from . import honest_plain

calls = itertools.count(1)


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    call = next(calls)
    if call % 10 == 0 and call <= 80:
        threading.Thread(target=time.sleep, args=(60,)).start()
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
