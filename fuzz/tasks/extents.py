"""Tensors whose elements lie beyond 2^31, in memory that is never used and so takes no room."""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np

from fuzz.tasks.check.results import CheckError

_BEYOND = (1 << 31) + 4096
"""The place of the last row, in elements: an index of 32 bits is negative there."""


def far_apart(tensor: Any) -> Any:
    """Return a copy of a tensor, or array, whose rows lie so far apart that the last is more than 2^31 places from the
    first. A kernel that calculates places in 32 bits reads or writes others. The memory between the rows is never
    touched, and takes no room; of a GPU, most of it does not exist. Raises CheckError for fewer than two rows."""
    rows, *inner = tensor.shape or (0,)
    if rows < 2 or 0 in inner:
        raise CheckError("far_apart: it takes a tensor of two rows or more")
    is_torch, size = hasattr(tensor, "data_ptr"), math.prod(inner)
    step, itemsize = -(-_BEYOND // (rows - 1)), tensor.dtype.itemsize
    length = ((rows - 1) * step + size) * itemsize
    strides = tuple(math.prod(inner[at + 1 :]) for at in range(len(inner)))
    if is_torch and tensor.is_cuda:
        from fuzz.core.transport.python.reserved import reserved

        windows = [slice(row * step * itemsize, (row * step + size) * itemsize) for row in range(rows)]
        memory = reserved(tensor.device, length, windows).view(tensor.dtype)
        return memory.as_strided(tuple(tensor.shape), (step, *strides)).copy_(tensor)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, length, flags=flags)
    if not is_torch:
        every = np.frombuffer(memory, dtype=tensor.dtype)
        found = np.lib.stride_tricks.as_strided(every, tensor.shape, [each * itemsize for each in (step, *strides)])
        found[...] = tensor
        return found
    import torch

    found = torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tuple(tensor.shape), (step, *strides))
    return found.copy_(tensor)
