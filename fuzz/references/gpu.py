"""What a GPU does where one is there: replays of large inputs, and products of large matrices for the oracle. Smaller
ones stay on the processor, so that a machine without a GPU finds the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from fuzz.references.alike import Arrays
from oracles.doubledouble import F64
from oracles.formula.exact import contraction

GPU = "cuda"
MANY = 1 << 20
"""The least number of elements of inputs that are replayed on the GPU: on the processor they take about a second."""
PRODUCTS = 1 << 28
"""The least number of products that are multiplied and added up on the GPU: the processor takes 0.1 s."""


@cache
def has_gpu() -> bool:
    """Whether torch can use a GPU here."""
    import torch

    return bool(torch.cuda.is_available())


def is_large(arrays: Arrays) -> bool:
    """Whether inputs are large enough for the GPU."""
    return sum(each.size for each in arrays.values()) >= MANY


def moved(arrays: Arrays) -> Mapping[str, Any]:
    """Return the arrays as tensors on the GPU."""
    import torch

    return {name: torch.tensor(each, device=GPU) for name, each in arrays.items()}


@contextmanager
def freed() -> Iterator[None]:
    """Give the GPU's memory back at the end, which the kernels need that run in other processes."""
    try:
        yield
    finally:
        if has_gpu():
            import torch

            torch.cuda.empty_cache()


@contextmanager
def without_tf32() -> Iterator[None]:
    """Let products and convolutions in f32 have f32's precision on a GPU, where torch may shorten their operands."""
    import torch

    if not torch.cuda.is_available():  # nor may the flags be set where a suite imports torch's own tests
        yield
        return
    kept = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = kept


def multiply_on_gpu() -> None:
    """Let the oracle multiply large matrices on the GPU from now on, if there is one. Float64 is the same there: a sum
    of n products has the error that `oracles.formula.exact.contraction` allows for any order of additions."""
    if has_gpu():
        contraction.on_device = _product


def _product(left: F64, right: F64) -> F64 | None:
    """Return the products of two stacks of matrices, (stack, rows, length) and (stack, columns, length); None if they
    are too few or the GPU lacks memory."""
    import torch

    if math.prod(left.shape) * right.shape[1] < PRODUCTS:
        return None
    try:
        with freed():
            one, other = (torch.tensor(each, device=GPU) for each in (left, right))
            found: F64 = torch.bmm(one, other.transpose(1, 2)).cpu().numpy()
            return found
    except torch.OutOfMemoryError:
        return None
