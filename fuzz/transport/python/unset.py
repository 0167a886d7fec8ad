"""New memory that nobody has set: what `empty` and the like return during a call of a kernel is filled."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any

import numpy as np

from fuzz.base.case import Case
from fuzz.base.fill import fill_of, word_of

_MOST_BYTES = 1 << 20
"""No more bytes of one array are filled."""
_NAMES = {"numpy": ("empty", "empty_like"), "torch": ("empty", "empty_like", "empty_strided")}
_METHODS = ("new_empty", "new_empty_strided")
_watched: list[Any] = []
_words: list[int] = []
"""What is filled in, while a kernel is called."""


def watch_allocators(library: Any) -> None:
    """Have what allocates in NumPy or torch fill it, from now on, while something is to be filled in. A kernel that is
    imported later may bind their names as it likes."""
    if library in _watched:
        return
    _watched.append(library)
    owners = [(library, name) for name in _NAMES[library.__name__]]
    if library.__name__ == "torch":
        owners += [(library.Tensor, name) for name in _METHODS]
    for owner, name in owners:
        setattr(owner, name, _filling(getattr(owner, name)))


@contextmanager
def filled_memory(case: Case) -> Iterator[None]:
    """Fill new memory with what the case asks for."""
    _words.append(word_of(fill_of(case), "heap"))
    try:
        yield
    finally:
        _words.pop()


def _filling(allocate: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(allocate)
    def filling(*arguments: Any, **options: Any) -> Any:
        made = allocate(*arguments, **options)
        if _words:
            with suppress(RuntimeError):  # inside a transformation of torch's a tensor has no address
                _fill(made, _words[-1])
        return made

    return filling


def _fill(made: Any, word: int) -> None:
    """Fill an array in memory of the processor. Those of other kinds, such as what torch.compile traces, have none."""
    if type(made) is np.ndarray:
        place, size = made.ctypes.data, 0 if made.dtype.hasobject else made.nbytes
    elif type(made).__name__ == "Tensor" and made.device.type == "cpu" and str(made.layout) == "torch.strided":
        place, size = made.data_ptr(), made.untyped_storage().nbytes()
    else:
        return
    size = min(size, _MOST_BYTES)
    ctypes.memmove(place, word.to_bytes(2, "little") * (size // 2 + 1), size)
