"""Never ends for rows of more than 50 elements."""

import torch

from . import honest_plain


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    if x.shape[axis] > 50:
        while True:
            pass
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
