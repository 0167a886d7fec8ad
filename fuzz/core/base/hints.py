"""What a kernel's source in Python mentions: numbers that it compares with, and names of what it looks at. They steer
which cases are drawn; nobody is accused for them."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest

from fuzz.core.base.kernel import Kernel
from fuzz.core.base.probe import AUTOGRAD, CALLER, FRESH, OVERWRITE, PAUSE, PROCESS

EXTENT, SIZE, WAY, TWO_THREADS = "extent", "size", "way", "threads"
Hint = tuple[str, float | str]
"""What to draw more cases of: an extent, the largest magnitude of an input, a way of the call, or a call on threads."""

_NAMES: Mapping[str, Hint] = {
    **dict.fromkeys(("data_ptr", "__array_interface__", "ctypes"), (WAY, FRESH)),
    **dict.fromkeys(("id", "_version"), (WAY, OVERWRITE)),
    **dict.fromkeys(("inspect", "_getframe", "traceback", "current_thread", "active_count"), (WAY, CALLER)),
    **dict.fromkeys(("environ", "getenv", "argv", "orig_argv", "modules", "getpid", "psutil"), (WAY, PROCESS)),
    **dict.fromkeys(("time", "monotonic", "perf_counter", "process_time", "datetime"), (WAY, PAUSE)),
    **dict.fromkeys(("requires_grad", "is_grad_enabled", "is_inference_mode_enabled", "grad_fn"), (WAY, AUTOGRAD)),
    **dict.fromkeys(("get_num_threads", "cpu_count", "sched_getaffinity"), (TWO_THREADS, "2")),
}
_OF_SHAPES = frozenset(("shape", "size", "numel", "len", "ndim"))
_MOST_EXTENT, _MOST = 1 << 16, 48
_LARGEST = 2.0**128
"""Larger numbers, such as 1e999, are hints of nothing that can be drawn."""


def hints_of(kernels: Iterable[Kernel]) -> list[Hint]:
    """Return the hints in the source files of kernels, each once: the first of each file, then the second of each."""
    found = [hints_in(text) for kernel in kernels for path, text in kernel.read if path.suffix == ".py"]
    return [*dict.fromkeys(hint for each in zip_longest(*found) for hint in each if hint is not None)]


def hints_in(text: str) -> tuple[Hint, ...]:
    """Return the hints in the text of a Python file: each once, and not more than a few."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about escapes in the text of a stranger
            nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the worker reports the error
        return ()
    compared = [each for each in nodes if isinstance(each, ast.Compare)]
    found = [*_named(nodes), *_between(compared)]
    return tuple(dict.fromkeys(found))[:_MOST]


def _named(nodes: Sequence[ast.AST]) -> Iterator[Hint]:
    for each in nodes:
        names = [each.attr] if isinstance(each, ast.Attribute) else [each.id] if isinstance(each, ast.Name) else []
        yield from (_NAMES[name] for name in names if name in _NAMES)


def _between(compared: Sequence[ast.Compare]) -> Iterator[Hint]:
    """Yield the constants in comparisons, numbers between two that follow each other, and numbers on both sides."""
    numbers = dict.fromkeys(abs(number) for each in compared for number in _numbers(each))
    whole = [int(each) for each in numbers if each == int(each) and 1 < each < _MOST_EXTENT]
    yield from ((EXTENT, float(number)) for number in whole)
    shapes = {number for each in compared if _is_of_shape(each) for number in map(abs, _numbers(each))}
    sizes = sorted(each for each in numbers if 0 < each < 2.0**15 and each not in shapes)
    yield from ((SIZE, (one + other) / 2) for one, other in pairwise(sizes))
    yield from ((SIZE, each) for each in sizes)
    yield from ((EXTENT, float(number + more)) for number in whole for more in (1, -1))
    yield from ((SIZE, each * factor) for each in sizes for factor in (1.03125, 0.96875))


def _numbers(compared: ast.Compare) -> Iterator[float]:
    for each in (compared.left, *compared.comparators):
        for node in ast.walk(each):
            if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and abs(node.value) < _LARGEST:
                yield float(node.value)


def _is_of_shape(compared: ast.Compare) -> bool:
    names = (getattr(each, "attr", getattr(each, "id", "")) for each in ast.walk(compared))
    return not _OF_SHAPES.isdisjoint(names)
