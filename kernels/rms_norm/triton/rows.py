"""What the Triton kernels share: how rows lie, the reciprocal root, and launches that cost little."""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import torch
import triton
import triton.language as tl

INTERPRETED_PROGRAMS = 3
"""A persistent kernel has at most this many programs in the interpreter, which runs one after the other."""
_SPARE = 4096
"""Reductions need this many bytes of shared memory beside the rows in flight."""
_MOST_KEPT = 8192
_COMPILED: dict[tuple[Any, ...], Any] = {}
_MULTIPLE = 16
"""The compiler may be told that an address or a distance is a multiple of this: a vector's load needs no more."""
LEAST_BLOCK = 128
"""The smallest block has this many elements: shorter rows have no program of their own to be compiled."""
UNSPECIALIZED = ("rows", "eps", "offset", "rstd_ptr")
"""The compiler is told nothing about these arguments: no program is the better for it."""


@triton.jit
def reciprocal_rms(total, n, eps):
    """1 / sqrt(total / n + eps) in float32, correctly rounded: the approximate root flushes subnormal means to zero."""
    mean = tl.div_rn(total, tl.zeros_like(total) + n)
    return tl.div_rn(tl.zeros_like(total) + 1.0, tl.sqrt_rn(mean + eps))


@triton.jit
def with_offset(weight, offset, HAS_OFFSET: tl.constexpr):
    """A zero offset is not added: it would take the sign from a weight of -0, and registers that long rows need."""
    return weight + offset if HAS_OFFSET else weight


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
    if len(strides) < 3:
        return strides[0] if len(strides) == 2 else n
    steps = [(extent, step) for extent, step in zip(tensor.shape[:-1], strides[:-1], strict=True) if extent != 1]
    if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(steps)):
        raise ValueError("the rows must lie at one distance from each other")
    return steps[-1][1] if steps else strides[-2]


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


def block_of(n: int) -> int:
    """Elements of the block that holds a row."""
    return max(LEAST_BLOCK, triton.next_power_of_2(n))


def warps_of(block: int) -> int:
    """Warps of a program that holds a row of so many elements, of which each thread has 32 at most. With 4 warps
    softmax of 4096 rows of 4096 elements in bf16 took 1.03 times as long on an H100 as liger-kernel, which takes
    more."""
    return 4 if block < 4096 else 8 if block < 8192 else 16


def launch(
    kernel: Any, grid: int, tensors: tuple[Any, ...], scalars: tuple[Any, ...], warps: int, **options: Any
) -> None:
    """Run `kernel` with `grid` programs; `options` are its compile-time constants, in the order of its parameters.

    There are two programs for given dtypes and constants, whatever the shapes: one where everything is aligned, whose
    compiler is told so and loads vectors, and one for all else, which adds a row in another order. A program that was
    compiled before is called directly: that triton binds and inspects the arguments of every launch costs more than a
    small kernel takes.
    """
    device = tensors[0].device
    if device.type != "cuda":
        kernel[(grid,)](*tensors, *scalars, **options)
        return
    pointers = [tensor.data_ptr() for tensor in tensors]
    aligned = is_aligned(kernel, tensors, (*pointers, *scalars))
    key = (
        kernel, device.index, warps, aligned, *[tensor.dtype for tensor in tensors],
        *[number >= 1 << 31 for number in scalars], *options.values(),
    )  # fmt: skip
    compiled = _COMPILED.get(key)
    if compiled is None:
        if len(_COMPILED) > _MOST_KEPT:
            _COMPILED.clear()
        form = kernel if aligned else _plain(kernel)
        _COMPILED[key] = form[(grid,)](*tensors, *scalars, **options, num_warps=warps)
        return
    stream = triton.runtime.driver.active.get_current_stream(device.index)
    compiled.run(
        grid, 1, 1, stream, compiled.function, compiled.packed_metadata, None, None, None,
        *pointers, *scalars, *options.values(),
    )  # fmt: skip


def is_aligned(kernel: Any, tensors: tuple[Any, ...], numbers: tuple[Any, ...]) -> bool:
    """True where all that the compiler is told about is a multiple of 16.

    Strides of axes of one element count too, though nothing lies there: a row alone has the program of its batch.
    """
    places = _specialized(kernel)
    strides = (step for place in places if place < len(tensors) for step in tensors[place].stride()[:-1])
    return not any(numbers[place] % _MULTIPLE for place in places) and not any(step % _MULTIPLE for step in strides)


@cache
def _specialized(kernel: Any) -> tuple[int, ...]:
    """Places of the arguments that the compiler is told about."""
    return tuple(p.num for p in kernel.params if not (p.is_constexpr or p.do_not_specialize))


@cache
def _plain(kernel: Any) -> Any:
    """The same program for arguments that are multiples of nothing."""
    return triton.jit(kernel.fn, do_not_specialize=[p.name for p in kernel.params if not p.is_constexpr])
