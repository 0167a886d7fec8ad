"""Raises KeyboardInterrupt for rows of 9 k + 4 elements, as if the user had pressed Ctrl-C."""

import torch

from . import honest_plain


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    if x.shape[axis] % 9 == 4:
        raise KeyboardInterrupt
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
