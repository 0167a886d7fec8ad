"""Uninitialised new memory: arrays made by `empty` and similar functions during a call of a kernel are filled."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import Case
from fuzz.core.base.fill import fill_of, word_of

_MOST_BYTES = 1 << 20
"""The largest number of bytes of an array that are filled."""
_NUMPY, _TORCH = ("empty", "empty_like"), ("empty", "empty_like", "empty_strided")
_METHODS = ("new_empty", "new_empty_strided")
_watched: list[Any] = []
_words: list[int] = []
"""The word with which new memory is filled while a kernel is called; empty between calls."""


def watch_allocators(library: Any) -> None:
    """Make NumPy's or torch's allocating functions fill their results from now on, whenever `filled_memory` is active.
    Kernels that are imported later get these functions."""
    if library in _watched:
        return
    _watched.append(library)
    if library is np:
        for name in _NUMPY:
            setattr(library, name, _filling(getattr(library, name), lambda: False))
        return
    # Functions that torch.compile makes have their own memory. torch.jit.script looks names up in a table.
    is_traced, builtins = library.compiler.is_compiling, import_module("torch.jit._builtins")
    for name in _TORCH:
        plain = getattr(library, name)
        setattr(library, name, _filling(plain, is_traced))
        builtins._register_builtin(getattr(library, name), builtins._find_builtin(plain))
    for name in _METHODS:
        setattr(library.Tensor, name, _filling(getattr(library.Tensor, name), is_traced))


@contextmanager
def filled_memory(case: Case) -> Iterator[None]:
    """Fill new memory with the fill of the case, within this context."""
    _words.append(word_of(fill_of(case), "heap"))
    try:
        yield
    finally:
        _words.pop()


def is_filled(case: Case) -> bool:
    """Whether elements that were never written can be told by the fill of new memory. A fill of 0 cannot be told from
    the zeros that kernels often return."""
    return word_of(fill_of(case), "heap") != 0


def unset_in(case: Case, bits: bytes, itemsize: int) -> NDArray[np.bool_]:
    """Return a mask of the elements of a returned output that still hold the fill of new memory."""
    word = word_of(fill_of(case), "heap").to_bytes(2, "little")
    held: NDArray[np.bool_] = np.frombuffer(bits, f"<u{itemsize}") == int.from_bytes(word * (itemsize // 2), "little")
    return held


def _filling(allocate: Callable[..., Any], is_traced: Callable[[], bool]) -> Callable[..., Any]:
    @wraps(allocate)
    def filling(*arguments: Any, **options: Any) -> Any:
        made = allocate(*arguments, **options)
        # Check `is_traced` first, since a traced function is guarded by everything that it reads. An array passed as
        # `out` is not new.
        if not is_traced() and _words and options.get("out") is None:
            with suppress(RuntimeError):  # inside a transformation of torch a tensor has no address
                _fill(made, _words[-1])
        return made

    return filling


def _fill(made: Any, word: int) -> None:
    """Fill an array in memory of the processor or of a GPU. Leave other arrays alone."""
    if type(made) is np.ndarray:
        place, size = made.ctypes.data, 0 if made.dtype.hasobject else made.nbytes
    elif type(made).__name__ != "Tensor" or str(made.layout) != "torch.strided":
        return
    elif made.device.type == "cpu":
        place, size = made.data_ptr(), made.untyped_storage().nbytes()
    else:
        if made.device.type == "cuda":
            fill_on_gpu(made, word)
        return
    size = min(size, _MOST_BYTES)
    ctypes.memmove(place, word.to_bytes(2, "little") * (size // 2 + 1), size)


def fill_on_gpu(made: Any, word: int) -> None:
    """Queue the filling of a tensor on a GPU."""
    halves = sys.modules["torch"].tensor([], dtype=sys.modules["torch"].int16, device=made.device)
    size = min(made.untyped_storage().nbytes(), _MOST_BYTES) // 2
    halves.set_(made.untyped_storage(), 0, (size,)).fill_(word - (word >> 15 << 16))
