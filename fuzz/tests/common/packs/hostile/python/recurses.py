"""Recurses until the stack ends, for rows of 11 k + 5 elements, with the interpreter's own limit lifted."""

import sys

import torch

from . import honest_plain


class Bottomless:
    """Each attribute asks for another: a recursion through the interpreter, on the stack of C."""

    def __getattr__(self, name: str) -> object:
        return getattr(self, name + "_" if len(name) < 9 else "a")


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    if x.shape[axis] % 11 == 5:
        sys.setrecursionlimit(10**6)
        getattr(Bottomless(), "a")  # noqa: B009
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
