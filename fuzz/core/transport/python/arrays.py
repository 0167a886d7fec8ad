"""The arrays of a framework: views of memory that are passed to its kernels, and arrays that kernels return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import numpy as np

from fuzz.core.base.dtypes import NUMPY_DTYPE
from fuzz.core.transport.python.slab import Slab
from oracles.dtypes import DTYPES


class UnreadableArrayError(Exception):
    """An array that has no elements in memory. The message names its kind."""


class Arrays(Protocol):
    """Operations on the arrays of one framework."""

    noun: str
    """The word that users of the framework have for an array."""
    library: Any
    """The module of the framework."""
    dtypes: Mapping[str, Any]
    """The dtypes of the framework, by their names in cases."""
    no_memory: tuple[type[BaseException], ...]
    """The exceptions that the framework raises if memory does not suffice."""

    def view(self, slab: Slab) -> Any:
        """Return an array in the slab's memory, to be passed to the kernel."""
        ...

    def owns(self, found: Any) -> bool:
        """Return whether a value is an array of this framework."""
        ...

    def bits(self, found: Any) -> bytes:
        """Return the elements of an array in C order. Raise UnreadableArrayError if it has none in memory."""
        ...

    def is_plain(self, found: Any) -> bool:
        """Return whether an array is of the framework's own class. Subclasses may refuse any operation."""
        ...

    def same_place(self, one: Any, other: Any) -> bool:
        """Return whether two arrays start at the same address, so that they are one array or two views of it."""
        ...

    def threads(self, wanted: float | int | None) -> AbstractContextManager[None]:
        """Return a context in which a call has `wanted` threads, or the usual number if `wanted` is None."""
        ...


class NumpyArrays:
    """NumPy's arrays. Formats that NumPy lacks are dtypes of ml_dtypes."""

    noun = "array"
    library: Any = np
    dtypes: Mapping[str, Any] = NUMPY_DTYPE
    no_memory: tuple[type[BaseException], ...] = (MemoryError,)

    def view(self, slab: Slab) -> Any:
        return slab.array(slab.memory, self.dtypes[slab.dtype])

    def owns(self, found: Any) -> bool:
        return isinstance(found, (np.ndarray, np.generic))

    def bits(self, found: Any) -> bytes:
        data: bytes = found.tobytes()
        return data

    def is_plain(self, found: Any) -> bool:
        return type(found) is np.ndarray or isinstance(found, np.generic)

    def same_place(self, one: Any, other: Any) -> bool:
        return bool(one.size == 0 or one.ctypes.data == other.ctypes.data)

    def threads(self, wanted: float | int | None) -> AbstractContextManager[None]:
        return nullcontext()  # NumPy has no setting for it


class TorchArrays:
    """Tensors of torch, which Triton uses too."""

    noun = "tensor"

    def __init__(self) -> None:
        import torch

        self.library = torch
        self.no_memory: tuple[type[BaseException], ...] = (MemoryError, torch.OutOfMemoryError)
        self.dtypes = torch_dtypes(torch)

    def view(self, slab: Slab) -> Any:
        torch, memory = self.library, slab.memory
        storage = torch.from_numpy(memory) if isinstance(memory, np.ndarray) else memory
        empty = torch.empty(0, dtype=self.dtypes[slab.dtype], device=storage.device)
        at = (storage.storage_offset() + slab.start) // slab.itemsize - slab.layout.lowest
        return empty.set_(storage.untyped_storage(), at, slab.layout.shape, slab.layout.strides)

    def owns(self, found: Any) -> bool:
        return isinstance(found, self.library.Tensor)

    def bits(self, found: Any) -> bytes:
        torch = self.library
        if found.layout is not torch.strided or found.is_meta or found.is_quantized:
            kind = "meta" if found.is_meta else str(found.layout).removeprefix("torch.")
            raise UnreadableArrayError(
                f"a {'quantized' if found.is_quantized else kind} tensor has no elements in memory"
            )
        # Copy whatever the strides are, since a tensor of one element counts as contiguous with any strides.
        flat = torch.empty(found.numel(), dtype=found.dtype, device="cpu", layout=torch.strided)
        flat.view(found.shape).copy_(found.detach())
        data: bytes = flat.view(torch.uint8).numpy().tobytes()
        return data

    def is_plain(self, found: Any) -> bool:
        return type(found) in (self.library.Tensor, self.library.nn.Parameter)

    def same_place(self, one: Any, other: Any) -> bool:
        try:
            return bool(one.numel() == 0 or one.data_ptr() == other.data_ptr())
        except RuntimeError:  # the tensor has no memory
            return False

    @contextmanager
    def threads(self, wanted: float | int | None) -> Iterator[None]:
        before = self.library.get_num_threads()
        if wanted is not None:
            self.library.set_num_threads(int(wanted))
        try:
            yield
        finally:
            if wanted is not None:
                self.library.set_num_threads(before)


def arrays_of(framework: str) -> Arrays:
    """Import a framework, and return the operations on its arrays."""
    if framework == "numpy":
        return NumpyArrays()
    return TorchArrays()


def torch_dtypes(torch: Any) -> Mapping[str, Any]:
    """Return the dtypes that this version of torch has, by their names in cases."""
    return {name: getattr(torch, each.spelling) for name, each in DTYPES.items() if hasattr(torch, each.spelling)}
