"""References in NumPy: they are called with arrays of torch's own NumPy, so that they are read like torch's."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from threading import get_ident
from types import FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from fuzz.references.dims import UnreadableError
from fuzz.references.parameters import LIBRARIES, OF_PARTS, libraries_of, library_of

_OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "power": "pow", "greater": "gt",
    "greater_equal": "ge", "less": "lt", "less_equal": "le", "equal": "eq", "not_equal": "ne",
}  # fmt: skip
"""NumPy's names for the operators of tensors and numbers."""


def as_tensors(reference: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reference that takes and returns tensors: itself, or a wrapper if the reference is in NumPy."""
    if hasattr(reference, OF_PARTS) or library_of(reference) != "numpy" or not libraries_of(reference):
        return reference

    @wraps(reference)
    def taken(*args: Any, **kwargs: Any) -> Any:
        with _made_by_torch():
            return _opened(reference(*map(_array, args), **{name: _array(each) for name, each in kwargs.items()}))

    return taken


MOVED: Mapping[str, Callable[[Any, int], Any]] = {
    **dict.fromkeys(("circular", "wrap"), lambda places, n: places % n),
    **dict.fromkeys(("replicate", "edge"), lambda places, n: places.clamp(0, n - 1)),
    "reflect": lambda places, n: n - 1 - (n - 1 - places.abs()).abs(),
    "symmetric": lambda places, n: _mirrored(_mirrored(places, 0), n),
}
"""The element of a dimension of length n that each place repeats, by mode of padding, as torch and NumPy call it.
Places before the first are below 0; those after the last are n or more."""


def _mirrored(places: Any, end: int) -> Any:
    """Return places mirrored at the end before or after a row, without those that are inside."""
    return places.where((places >= end) == (end == 0), 2 * end - 1 - places)


class Array(NDArrayOperatorsMixin):
    """A NumPy-like array around a tensor; NumPy's functions on it are calculated by torch."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **given: Any) -> Any:
        if method == "__call__":
            return _called(ufunc.__name__, inputs, given)
        if method == "reduce" and (name := {"add": "sum", "maximum": "max", "minimum": "min"}.get(ufunc.__name__)):
            return _called(name, inputs, {"axis": 0, **given})
        return NotImplemented

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _called(function.__name__, args, kwargs)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise UnreadableError("it becomes an array of NumPy's own: call NumPy as np.asarray(x), or x.astype")

    def __bool__(self) -> bool:
        raise UnreadableError("a value decides what it does: a formula has no branches")

    def __getattr__(self, name: str) -> Any:
        if name == "dtype":
            return np.dtype(str(self._own.tensor.dtype).removeprefix("torch."))
        found = getattr(self._own, name)
        return (lambda *args, **kwargs: _run(found, args, kwargs)) if callable(found) else _closed(found)

    def __getitem__(self, at: Any) -> Any:
        return _closed(self._own[_given(at)])

    def __setitem__(self, at: Any, value: Any) -> None:
        self._own[_given(at)] = _given(value)

    def __len__(self) -> int:
        return int(self._own.shape[0])

    def astype(self, dtype: Any, **_: Any) -> Any:
        """Return the array cast to a dtype, also to one that torch has and torch's NumPy lacks."""
        name = np.dtype(dtype).name
        if (own := getattr(sys.modules["torch"], name, None)) is None:
            raise UnreadableError(f"casts to {name}, which torch does not have")
        return Array(type(self._own)(self._own.tensor.to(own)))


def _called(name: str, args: Any, kwargs: Any) -> Any:
    """Return the result of the function of that name in torch, or in torch's NumPy."""
    import torch
    import torch._numpy as tnp

    # Torch's NumPy rounds constants to the dtype of the arrays; torch does not.
    if any(isinstance(each, (int, float, np.generic)) for each in args) and any(isinstance(a, Array) for a in args):
        plain = {"maximum": _at_least, "minimum": _at_most, "where": torch.where, "clip": torch.clamp}
        own = plain.get(name) or getattr(operator, _OPERATORS.get(name, ""), None)
        if own is not None and not kwargs:
            return Array(
                tnp.asarray(own(*(each.tensor if isinstance(each, tnp.ndarray) else each for each in _given(args))))
            )
    kwargs = {
        {"correction": "ddof"}.get(key, key): each for key, each in kwargs.items()
    }  # what NumPy calls so since 2.0
    if name == "modf":  # torch's NumPy rounds down, NumPy towards zero
        return args[0] - np.trunc(args[0]), np.trunc(args[0])
    ours: Mapping[str, Any] = {"pad": _padded, "sliding_window_view": _windowed}
    spaces = (getattr(each, name, None) for each in (tnp, tnp.linalg, tnp.fft))  # "fft" is a module, too
    found = ours.get(name) or next(filter(callable, spaces), None) or _special(name)
    if found is None or name == "cbrt":  # a power there, NaN of negative numbers and off far from 1
        raise UnreadableError(f"numpy.{name} has no formula")
    return _run(found, args, kwargs)


def _special(name: str) -> Callable[..., Any] | None:
    """Return a function of scipy.special as torch has it, or None."""
    import torch

    found = getattr(torch.special, name, None)
    return found and (
        lambda *args: sys.modules["torch._numpy"].asarray(found(*(getattr(each, "tensor", each) for each in args)))
    )


def _padded(array: Any, pad_width: Any, mode: str = "constant", **given: Any) -> Any:
    """Return an array padded by its own elements, as `numpy.pad` has the modes, or by constants."""
    import torch
    import torch._numpy as tnp

    if mode == "constant":
        return tnp.pad(array, pad_width, mode, **given)
    if mode not in MOVED:
        raise UnreadableError(f"pads by {mode!r}, which has no formula")
    found = array.tensor
    for at, (before, after) in enumerate(np.broadcast_to(pad_width, (found.ndim, 2)).tolist()):
        if before or after:
            size = found.shape[at]
            found = found.index_select(at, MOVED[mode](torch.arange(-before, size + after), size))
    return tnp.asarray(found)


def _windowed(x: Any, window_shape: Any, axis: Any = None, **_: Any) -> Any:
    import torch._numpy as tnp

    sizes = [window_shape] if isinstance(window_shape, int) else [*window_shape]
    axes = [*range(x.ndim)] if axis is None else [axis] if isinstance(axis, int) else [*axis]
    found = x.tensor
    for at, size in zip(axes, sizes, strict=True):
        found = found.unfold(at % x.ndim, size, 1)
    return tnp.asarray(found)


def _eye(n: int, m: int | None = None, k: int = 0, dtype: Any = float) -> Any:
    return (np.arange(n)[:, None] + k == np.arange(n if m is None else m)).astype(dtype)


def _linspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: Any = float) -> Any:
    place = np.arange(num, dtype=dtype)
    step = (stop - start) / max(num - 1 if endpoint else num, 1)
    found = np.where(place > 0, place * step, 0.0)  # with one place there is no step
    return found + start if start else found


def _copied(value: Any, dtype: Any = None, **given: Any) -> Any:
    if isinstance(value, Array):
        return value.copy() if dtype is None else value.astype(dtype)
    return _ARRAY(value, dtype, **given)


_ARRAY = np.array
_MAKERS: Mapping[str, Callable[..., Any]] = {
    **{name: lambda *args, _name=name, **kwargs: _called(_name, args, kwargs)
       for name in ("arange", "empty", "full", "ones", "tri", "zeros")},
    "eye": _eye, "identity": lambda n, dtype=float: _eye(n, dtype=dtype), "linspace": _linspace,
    "array": _copied, "asarray": _copied, "ascontiguousarray": _copied,
}  # fmt: skip
"""Replacements for functions of NumPy whose arguments do not show that the result should be an array of torch."""


@contextmanager
def _made_by_torch() -> Iterator[None]:
    """Let torch create the arrays that a reference creates from extents, so that they do not become constants."""
    with ExitStack() as patches:
        for name, ours in _MAKERS.items():
            patches.enter_context(patch.object(np, name, _or_ours(getattr(np, name), ours, get_ident())))
        yield


def _or_ours(plain: Callable[..., Any], ours: Callable[..., Any], thread: int) -> Callable[..., Any]:
    """Return a function that calls `plain` in other threads and in libraries, and `ours` elsewhere. Compiled code, such
    as numpy.random, has no frame and would crash on an array of ours: it is recognised by its caller's other call."""

    @wraps(plain)
    def made(*args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        library = str(frame.f_globals.get("__name__")).partition(".")[0] in LIBRARIES
        own = library or get_ident() != thread or not _may_call(frame, plain.__name__)
        return (plain if own else ours)(*args, **kwargs)

    return made


def _may_call(frame: FrameType, name: str) -> bool:
    """Whether the current call of a frame may be one of the function of that name: the frame's code uses the name, and
    the call is by it or by a local variable. A call's expression begins where the function's does."""
    steps = [(each, each.positions) for each in dis.get_instructions(frame.f_code) if each.positions is not None]
    at = next((where for each, where in steps if each.offset == frame.f_lasti and None not in where), None)
    called = [
        (where[1::2], each.argval) for each, where in steps
        if at and where[::2] == at[::2] and where[1::2] <= at[1::2]
        and each.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME")
    ]  # fmt: skip
    return name in frame.f_code.co_names and (not called or max(called)[1] == name)


def _at_least(a: Any, b: Any) -> Any:
    return a.clamp(min=b) if hasattr(a, "clamp") else b.clamp(min=a)


def _at_most(a: Any, b: Any) -> Any:
    return a.clamp(max=b) if hasattr(a, "clamp") else b.clamp(max=a)


def _run(found: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        return _closed(found(*_given(args), **_given(kwargs)))
    except KeyError as error:  # torch's NumPy looks up the dtype of each tensor
        if not str(error).startswith("torch."):
            raise
        raise UnreadableError(f"calculates in {error}, which torch's NumPy lacks: cast to float32 before") from error


def _given(value: Any) -> Any:
    """Return an argument in the form in which torch's NumPy takes it."""
    import torch._numpy as tnp

    if isinstance(value, Array):
        return value._own
    if isinstance(value, (tuple, list)):
        return type(value)(map(_given, value))
    if isinstance(value, Mapping):
        return {name: _given(each) for name, each in value.items() if each is not np._NoValue}
    if isinstance(value, np.ndarray):
        return tnp.asarray(value.tolist(), dtype=_given(value.dtype))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        name = np.dtype(value).name
        return getattr(tnp, "bool_" if name == "bool" else name)
    return value


def _closed(value: Any) -> Any:
    import torch._numpy as tnp

    if isinstance(value, tnp.ndarray):
        return Array(value)
    return type(value)(map(_closed, value)) if isinstance(value, (tuple, list)) else value


def _array(value: Any) -> Any:
    import torch
    import torch._numpy as tnp

    return Array(tnp.asarray(value)) if isinstance(value, torch.Tensor) else value


def _opened(value: Any) -> Any:
    """Return a result with its arrays as tensors."""
    if isinstance(value, Array):
        return value._own.tensor
    if isinstance(value, Mapping):
        return {name: _opened(each) for name, each in value.items()}
    return type(value)(map(_opened, value)) if isinstance(value, (tuple, list)) else value
