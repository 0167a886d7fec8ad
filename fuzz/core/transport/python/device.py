"""Memory of a GPU. Tensors of all calls of a frame are copied there together, and back together."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fuzz.core.base.case import CACHE_LINE
from fuzz.core.transport.python.memory import Margins
from fuzz.core.transport.python.slab import Slab

_ALIGNED = 512
"""The alignment of tensors in bytes, as in torch's own allocator."""
_STAGED_BYTES, _KEPT_BYTES = 32 << 20, 16 << 20
"""The largest numbers of bytes copied to a GPU and back at a time: tensors with their margins, and tensors that kernels
returned meanwhile. They suffice for some 300 cases."""


class _Mirrored:
    """Bytes of a GPU, and pinned bytes of the host, copied as a whole. Each copy waits for the GPU, which other
    processes use too: one copy for each tensor took longer than everything else."""

    def __init__(self, torch: Any, size: int, device: str) -> None:
        self.device = torch.empty(size, dtype=torch.uint8, device=device)
        self._pinned = torch.empty(size, dtype=torch.uint8, pin_memory=device == "cuda")
        self.host = self._pinned.numpy()
        if self.device.data_ptr() % CACHE_LINE:
            raise RuntimeError("memory is not aligned to cache lines")

    def __len__(self) -> int:
        return len(self.host)

    def send(self, size: int) -> None:
        self.device[:size].copy_(self._pinned[:size], non_blocking=True)

    def fetch(self, size: int) -> None:
        self._pinned[:size].copy_(self.device[:size])


class DeviceMemory(Margins):
    """Memory of a GPU. Staged slabs are copied there and back together. A watching tool checks the ends of allocations
    and needs no margin, so without a margin each tensor is an allocation of its own. Tests use another `device`."""

    on_device = True

    def __init__(self, margin: int, torch: Any, device: str = "cuda") -> None:
        super().__init__(margin)
        self._torch = torch
        self._device = device
        self._staged: list[Slab] = []
        self._size = 0
        self._sent: _Mirrored | None = None
        self._kept: _Mirrored | None = None
        self._kept_size = 0
        self._copies: dict[int, tuple[Any, int]] = {}
        """Each copy that was handed out, by its id, and the offset of its bytes."""
        self._home: list[tuple[Slab, int]] = []

    @property
    def is_full(self) -> bool:
        return self._size >= _STAGED_BYTES

    def stage(self, slab: Slab) -> None:
        if not self.margin or slab.is_sparse:
            self.place(slab)
            return
        self._staged.append(slab)
        self._size += _aligned(len(slab.image))

    def send(self) -> None:
        self._kept_size, at, staged, size = 0, 0, self._staged, self._size
        self._copies.clear()
        self._staged, self._size, self._home = [], 0, []
        if not staged:
            return
        if self._sent is None or len(self._sent) < size:
            self._sent = None  # release it before making the new one, so that both need not fit into memory
            self._sent = _Mirrored(self._torch, max(size, _STAGED_BYTES), self._device)
        for slab in staged:
            self._home.append((slab, at))
            self._sent.host[at : at + len(slab.image)] = slab.image
            slab.memory = self._sent.device[at : at + len(slab.image)]
            at += _aligned(len(slab.image))
        self._sent.send(size)

    def fetch(self) -> None:
        if self._sent is not None and self._home:
            last, start = self._home[-1]
            self._sent.fetch(start + len(last.image))
            for slab, at in self._home:
                slab.fetched = self._sent.host[at : at + len(slab.image)]
        if self._kept is not None and self._kept_size:
            self._kept.fetch(self._kept_size)

    def keep(self, found: Any) -> Any:
        size, found = found.numel() * found.element_size(), found.detach()
        if self._kept is None:
            self._kept = _Mirrored(self._torch, _KEPT_BYTES, self._device)
        if not size or self._kept_size + size > len(self._kept):
            return found.clone()
        at, self._kept_size = self._kept_size, self._kept_size + _aligned(size)
        copy = self._kept.device[at : at + size].view(found.dtype).view(found.shape)
        self._copies[id(copy)] = copy, at
        return copy.copy_(found)

    def kept_bytes(self, found: Any) -> bytes | None:
        if self._kept is None or id(found) not in self._copies:
            return None
        at = self._copies[id(found)][1]
        data: bytes = self._kept.host[at : at + found.numel() * found.element_size()].tobytes()
        return data

    def release(self) -> None:
        if self._sent is not None and len(self._sent) > _STAGED_BYTES:
            self._sent, self._home = None, []

    def place(self, slab: Slab) -> None:
        size, torch = len(slab.image), self._torch
        if slab.is_sparse and self._device == "cuda":
            from fuzz.core.transport.python.reserved import reserved

            slab.memory = reserved(self._device, size, slab.windows)
        else:
            slab.memory = torch.empty(size, dtype=torch.uint8, device=self._device)
        if slab.memory.data_ptr() % CACHE_LINE:
            raise RuntimeError("memory is not aligned to cache lines")
        for window in slab.windows:
            slab.memory[window].copy_(torch.from_numpy(slab.image[window]))


@lru_cache(maxsize=2)
def device_memory(margin: int) -> DeviceMemory:
    """Return the memory with this margin. Kernels of this process use it in turn, since it pins tens of megabytes."""
    import torch

    return DeviceMemory(margin, torch)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
