"""Cannot be imported: a library that it needs is too old."""

import torch

from . import honest_plain


def check_version() -> None:
    raise RuntimeError("needs libfast >= 9\n::error::found 8")


check_version()


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
