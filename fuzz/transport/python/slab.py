"""Padded memory: each tensor lies in a slab of its own, between margins; what the kernel does not own is poisoned.

What a slab holds at the call is prepared on the host as its image, and compared with afterwards, on the host too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fuzz.base.case import CACHE_LINE, ITEMSIZE, Case, Layout, Output, Tensor

Bytes = npt.NDArray[np.uint8]

OUTPUT_POISONS = (0x7FFD, 0x7FFA)
"""The poisons of the first and of the second run: quiet NaNs in every dtype, and none of the poisons used for gaps."""
STORAGE_LIMIT = 1 << 28
"""One tensor may take at most this many bytes."""
_FIRST_GAP_POISON = 0x7FC1
"""The poison is a quiet NaN as f16, bf16, f32 and f64; every tensor has another one."""


class Slab:
    """The memory of one tensor, which an output may share with an input."""

    def __init__(self, index: int, tensor: Tensor | Output, margin: int, poison: int) -> None:
        self.index = index
        self.layout: Layout = tensor.layout
        self.itemsize = ITEMSIZE[tensor.dtype]
        self.dtype = tensor.dtype
        self.writable = isinstance(tensor, Output)
        self.poison = poison
        layout = self.layout
        first = layout.offset if layout.guard == "before" else -(layout.extent + layout.offset)
        self.start = -(-margin // CACHE_LINE) * CACHE_LINE + first * self.itemsize % CACHE_LINE
        self.size = layout.extent * self.itemsize
        self.image = np.empty(-(-(self.start + self.size + margin) // 2) * 2, np.uint8)
        self.image.view("<u2")[:] = _FIRST_GAP_POISON + index
        if isinstance(tensor, Tensor):
            self.elements(self.image)[...] = np.frombuffer(tensor.bits, self._unit).reshape(layout.shape)
        else:
            self.elements(self.image)[...] = poisoned(poison, self.itemsize)
        self.memory: Any = None
        """a torch tensor of bytes, once it is placed."""

    @property
    def _unit(self) -> str:
        return f"<u{self.itemsize}"

    def elements(self, memory: Bytes) -> npt.NDArray[Any]:
        """The logical elements as unsigned integers, in a slab's bytes."""
        if self.layout.size == 0:
            return np.empty(self.layout.shape, self._unit)
        strides = [stride * self.itemsize for stride in self.layout.strides]
        at = self.start - self.layout.lowest * self.itemsize
        return np.ndarray(self.layout.shape, self._unit, memory.data, at, strides)

    def place(self, torch: Any, device: str) -> None:
        """Copy the image into fresh memory of the device."""
        self.memory = torch.empty(len(self.image), dtype=torch.uint8, device=device)
        if self.memory.data_ptr() % CACHE_LINE:
            raise RuntimeError("memory is not aligned to cache lines")
        if device == "cpu":
            # By hand: torch would wake all its threads for it, and on a busy machine wait milliseconds for them.
            self.memory.numpy()[:] = self.image
        else:
            self.memory.copy_(torch.from_numpy(self.image))

    def view(self, torch: Any, dtype: Any) -> Any:
        """The tensor that the kernel is given."""
        empty = torch.empty(0, dtype=dtype, device=self.memory.device)
        at = self.start // self.itemsize - self.layout.lowest
        return empty.set_(self.memory.untyped_storage(), at, self.layout.shape, self.layout.strides)

    def after(self) -> Bytes:
        """What the slab holds now, on the host."""
        found: Bytes = self.memory.cpu().numpy()
        return found

    def changes(self, after: Bytes, rejected: bool) -> npt.NDArray[np.bool_]:
        """Which bytes were changed that the kernel does not own; a kernel that rejects its input owns none."""
        expected = self.image
        if self.writable and not rejected:
            expected = expected.copy()
            self.elements(expected)[...] = self.elements(after)
        return np.not_equal(after, expected)

    def owned(self) -> npt.NDArray[np.bool_]:
        """Which bytes are those of elements."""
        mask = np.zeros(len(self.image), np.uint8)
        self.elements(mask)[...] = np.iinfo(self._unit).max
        return mask.astype(np.bool_)

    def nearest(self, byte: int) -> int:
        """Flat index of the element nearest to a byte of the storage; -1 without elements. For reports only."""
        if self.layout.size == 0:
            return -1
        offsets = np.zeros((), np.int64)
        for extent, stride in zip(self.layout.shape, self.layout.strides, strict=True):
            offsets = offsets[..., None] + np.arange(extent) * stride
        return int(np.abs((offsets.reshape(-1) - self.layout.lowest) * self.itemsize - byte).argmin())


def poisoned(poison: int, itemsize: int) -> int:
    """An element that holds nothing but the poison."""
    return int.from_bytes(poison.to_bytes(2, "little") * (itemsize // 2), "little")


def slabs(case: Case, margin: int, poison: int) -> dict[str, Slab]:
    """The memory of every tensor; an output in an input's memory has that one's slab."""
    found: dict[str, Slab] = {}
    for index, (name, tensor) in enumerate(case.tensors.items()):
        if isinstance(tensor, Output) and tensor.alias is not None:
            found[name] = found[tensor.alias]
            found[name].writable = True
        else:
            found[name] = Slab(index, tensor, margin, poison)
    return found


def too_large(case: Case) -> bool:
    """True for a case that is not tried: every target would hold its memory at the same time."""
    return any(tensor.layout.extent * ITEMSIZE[tensor.dtype] > STORAGE_LIMIT for tensor in case.tensors.values())
