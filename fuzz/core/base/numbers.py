"""The whole numbers in a kernel's source. The extents, blocks and limits that matter to it are among them."""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

_LEAST, _MOST = 16, 1 << 16
"""The range of numbers that are used. Smaller ones are drawn anyway, and tensors with larger extents take long."""
_ENOUGH = 16
"""The largest count of numbers that are kept, since most numbers of a long source mean something else. Chosen."""
_DEEP = 3
"""The depth to which calls of other functions are followed. Chosen."""
_LIBRARIES = frozenset(("torch", "numpy", "jax", "triton", "mlx", "cupy", "builtins", "math"))
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_WHOLE = r"(0[xX][0-9a-fA-F]+|[1-9]\d*)[uUlLzZ]*"
_TERM = re.compile(rf"(?<![\w.]){_WHOLE}(?:\s*(<<|\*)\s*{_WHOLE})?(?![\w.])")


def numbers_in(path: Path, text: str) -> tuple[int, ...]:
    """Return the numbers in the text of a Python file, or of a file in a language like C."""
    if path.suffix != ".py":
        return _kept(_of_text(_COMMENT.sub(" ", text)))
    try:
        return _kept(_of_constant(compile(text, str(path), "exec")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the worker reports the error
        return ()


def numbers_of(function: Any) -> tuple[int, ...]:
    """Return the numbers in a loaded function, and in functions that it calls, except those of libraries."""
    return _kept(_of_function(function, _DEEP))


def in_turn(sources: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the numbers of several sources: the first of each, then the second of each, ..."""
    return _kept(number for each in zip_longest(*sources, fillvalue=0) for number in each)


def _kept(found: Iterable[int]) -> tuple[int, ...]:
    known = dict.fromkeys(each for each in found if _LEAST <= each <= _MOST)
    return tuple(known)[:_ENOUGH]


def _of_text(text: str) -> Iterator[int]:
    for one, sign, other in _TERM.findall(text):
        if sign == "<<":
            yield int(one, 0) << min(int(other, 0), _MOST.bit_length())
        elif sign:
            yield int(one, 0) * int(other, 0)
        yield from (int(each, 0) for each in (one, other) if each)


def _of_constant(value: object) -> Iterator[int]:
    if isinstance(value, CodeType):
        for each in dis.get_instructions(value):
            if each.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT")):
                yield from _of_constant(each.argval)
    elif isinstance(value, (tuple, frozenset)):
        for each in value:
            yield from _of_constant(each)
    elif type(value) is int:
        yield value


def _of_function(function: Any, depth: int) -> Iterator[int]:
    """Yield the numbers in the function's code, and in the numbers and functions that the code looks up by name."""
    function = _plain(function)
    if function is None or (function.__module__ or "").partition(".")[0] in _LIBRARIES:  # not code made by exec
        return
    yield from _of_constant(function.__code__)
    outer = inspect.getclosurevars(function)
    reached = [*outer.nonlocals.values(), *outer.globals.values()]
    modules = [each for each in reached if isinstance(each, ModuleType)]
    reached += [getattr(each, name, None) for each in modules for name in function.__code__.co_names]
    for each in reached:
        yield from _of_constant(each)
        if depth:
            yield from _of_function(each, depth - 1)


def _plain(function: Any) -> FunctionType | None:
    """Return the plain function inside a wrapper, such as a Triton kernel, or the one by which an object is called."""
    for _ in range(_DEEP):
        if isinstance(function, FunctionType) and not hasattr(function, "__wrapped__"):
            return function
        names = ("__wrapped__", "__func__", "func", "fn", "forward")
        inner = (each for name in names if callable(each := getattr(function, name, None)))
        function = next(inner, None) if callable(function) and not isinstance(function, type) else None
    return function if isinstance(function, FunctionType) else None
