"""What the Triton kernels share: how rows lie, the reciprocal root, and launches that cost little."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
import triton
import triton.language as tl

INTERPRETED_PROGRAMS = 3
"""programs of a persistent kernel in the interpreter, which runs one after the other."""
_SPARE = 4096
"""bytes of shared memory that reductions need beside the rows in flight."""
_MOST_KEPT = 8192
_COMPILED: dict[tuple[Any, ...], Any] = {}


@triton.jit
def reciprocal_rms(total, n, eps):
    """1 / sqrt(total / n + eps) in float32, correctly rounded: the approximate root flushes subnormal means to zero."""
    mean = tl.div_rn(total, tl.zeros_like(total) + n)
    return tl.div_rn(tl.zeros_like(total) + 1.0, tl.sqrt_rn(mean + eps))


def row_length(x: torch.Tensor, axis: int) -> int:
    """Elements of a row. Raises ValueError where the axis is not the last."""
    if x.ndim == 0 or axis not in (-1, x.ndim - 1):
        raise ValueError("only the last axis is normalised")
    return x.shape[-1]


def pitch(tensor: torch.Tensor, n: int) -> int:
    """Elements between the starts of consecutive rows. Raises ValueError where that is not one number."""
    strides = tensor.stride()
    if n > 1 and strides[-1] != 1:
        raise ValueError("the elements of a row must be neighbours")
    if len(strides) == 2:
        return strides[0]
    steps = [(extent, step) for extent, step in zip(tensor.shape[:-1], strides[:-1], strict=True) if extent != 1]
    if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(steps)):
        raise ValueError("the rows must lie at one distance from each other")
    return steps[-1][1] if steps else n


def dense(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """The tensor itself where its elements are neighbours, else fresh memory of its shape."""
    if tensor is None or tensor.is_contiguous():
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


@lru_cache
def processors(device: torch.device) -> int:
    """Multiprocessors of a GPU, or 0."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 0


@lru_cache
def stages(device: torch.device, bytes_of_tile: int) -> int:
    """1 + tiles that shared memory holds while they are loaded ahead, at most two."""
    if device.type != "cuda":
        return 1
    memory = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    return 1 + min(2, (memory - _SPARE) // bytes_of_tile)


def launch(
    kernel: Any, grid: int, tensors: tuple[Any, ...], scalars: tuple[Any, ...], warps: int, **options: Any
) -> None:
    """Run `kernel` with `grid` programs; `options` are its compile-time constants, in the order of its parameters.

    A kernel that was compiled before is called directly: that triton binds and inspects the arguments of every launch
    costs more than a small kernel takes. The key has everything that triton specialises the code on, and more.
    """
    device = tensors[0].device
    if device.type != "cuda":
        kernel[(grid,)](*tensors, *scalars, **options)
        return
    pointers = [tensor.data_ptr() for tensor in tensors]
    key = (
        kernel.__name__, device.index, warps, *[tensor.dtype for tensor in tensors],
        *[pointer % 16 for pointer in pointers], *scalars, *options.values(),
    )  # fmt: skip
    compiled = _COMPILED.get(key)
    if compiled is None:
        if len(_COMPILED) > _MOST_KEPT:
            _COMPILED.clear()
        _COMPILED[key] = kernel[(grid,)](*tensors, *scalars, **options, num_warps=warps)
        return
    stream = triton.runtime.driver.active.get_current_stream(device.index)
    compiled.run(
        grid, 1, 1, stream, compiled.function, compiled.packed_metadata, None, None, None,
        *pointers, *scalars, *options.values(),
    )  # fmt: skip
