"""Dimensions of a reference's tensors. A reference is traced in two calls, so that each dimension has a pair of
extents. No two dimensions have the same pair: a pair identifies its dimension."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oracles.formula.made import Counts, completed, follows, short
from oracles.operand import OUTER, OpError

Pair = tuple[int, int]
"""An extent in the first call and in the second."""
ONE: Pair = 1, 1
_PAIRS: Sequence[Pair] = (
    (5, 7), (11, 5), (13, 17), (19, 29), (29, 13), (31, 37), (17, 41), (41, 11), (37, 29), (43, 59), (47, 61), (59, 67),
)  # fmt: skip
"""Pairs of extents: primes, so that a product identifies its factors. Some shrink, so that no extent is a function of
another, and no two grow by the same amount, so that no difference of extents is the same in both calls."""
_FURTHER: Sequence[Pair] = (
    (12, 9), (16, 22), (10, 14), (18, 33), (20, 7), (15, 24), (8, 25), (6, 27), (21, 4), (26, 13), (36, 5), (3, 30),
)  # fmt: skip
"""Pairs of extents for further calls, odd and even and with many remainders, so that numbers such as n // 4 can be
recognised. They are small because many calls are made with them."""
_THIRD = (8, 16, 4, 2, 6, 12, 10, 9, 14, 15, 18, 20)
"""Extents of a third call, which the guard makes: most are divisible by 2, many by 4."""


TURNS = len(_FURTHER)
"""The number of turns in which further extents differ."""
_MOST_TIMES = 65
_TOLD = 6
"""The most tensors whose shapes an error names: a network has hundreds of weights, after its inputs."""


NO_ELEMENTS = "what it makes has no elements along some dimension, whatever the extents: leave that out"


class UnreadableError(OpError):
    """A reference that cannot be read. The message names the operation, its line, and the reason."""


class UnsaidError(UnreadableError):
    """A reference with tensors whose dimensions nobody stated."""


class NotTakenError(UnreadableError):
    """A reference that raises for tensors of these dimensions; with other extents it may not."""


class MisfitError(UnreadableError):
    """An extent or a place that follows from extents in no known way. With other extents it may be recognised."""


class FurtherCallsError(Exception):
    """A number that follows from extents in a way that only further calls show."""


class MisnamedError(UnreadableError):
    """A stated name that is no parameter of the reference, or a reference without a result. No other meaning helps."""


Square = tuple[tuple[str, str], ...]
"""Pairs of dimensions with equal extents."""


@dataclass(frozen=True)
class Dim:
    """A named dimension, with its extent in each of two calls."""

    name: str
    sizes: Pair


Axis = tuple[Dim, ...]
"""An axis of a tensor: the dimensions whose product is its extent; () for an axis of one element."""


def extent(dims: Iterable[Dim]) -> Pair:
    """Return the product of the extents of dimensions, in both calls."""
    first, second = zip(*(dim.sizes for dim in dims), strict=True) if (dims := [*dims]) else ((), ())
    return math.prod(first), math.prod(second)


@dataclass(frozen=True)
class Drawn:
    """Conditions on the extents of both calls."""

    times: int = 1
    """The number of which all extents are multiples."""
    least: int = 1
    """The least extent, so that windows fit, of the dimensions after the first in the tensor with the most axes."""


def declared_dims(
    shapes: Mapping[str, Sequence[str]],
    fixed: Mapping[str, int],
    drawn: Drawn | None = None,
    counts: Counts | None = None,
    turn: int | None = None,
    tied: Square = (),
) -> Mapping[str, Dim]:
    """Return all dimensions by name, in their order, with extents for two calls. `fixed` extents are kept, `counts`
    gives those that follow from others, and `tied` dimensions have equal extents. `turn` selects further ones."""
    drawn, counts = drawn or Drawn(), counts or {}
    names = [*dict.fromkeys((*(name for dims in shapes.values() for name in dims), *counts))]
    free = [name for name in names if name not in fixed and name not in counts]
    if len(free) > len(_PAIRS):
        raise UnreadableError(f"it has {len(free)} dimensions, of which {len(_PAIRS)} can be told apart")
    widest = max(shapes.values(), key=len, default=())
    turned = _PAIRS if turn is None else [*_FURTHER[turn:], *_FURTHER[:turn]]
    long = [*turned[:1], *(pair for pair in turned[1:] if min(pair) >= drawn.least)]
    pairs, left = dict[str, Pair](), [*turned]
    for name in free:
        pair = next((pair for pair in (long if name in widest else turned) if pair in left), left[0])
        left.remove(pair)
        pairs[name] = drawn.times * pair[0], drawn.times * pair[1]
    for one, other in tied:  # one after the other: three axes of a square and its rows are tied in a chain
        if {one, other} <= {*free}:
            pairs[other] = pairs[one]
    sizes = {**pairs, **{name: (size, size) for name, size in fixed.items()}}
    first, second = (_whole(counts, {name: pair[which] for name, pair in sizes.items()}, fixed) for which in (0, 1))
    return {name: Dim(name, (first[name], second[name])) for name in names}


def _whole(counts: Counts, sizes: Mapping[str, int], fixed: Mapping[str, int]) -> Mapping[str, int]:
    """Return all extents. Those from which others follow are multiplied until the others are whole numbers."""
    bases = follows(counts, counts) - fixed.keys()
    for times in range(1, _MOST_TIMES):
        many = {name: times * size if name in bases else size for name, size in sizes.items()}
        if not short(counts, many):
            return completed(counts, many)
    raise UnreadableError(f"no extents are found of which {' and '.join(counts)} follow in whole numbers")


def third(dims: Iterable[str], fixed: Mapping[str, int], drawn: Drawn, tied: Square = ()) -> Mapping[str, int]:
    """Return the extents of a third call, which the guard makes and nobody traces."""
    free = {name: drawn.times * size for name, size in zip(dims, _THIRD, strict=False)}
    for one, other in tied:
        free[other] = free.get(one, free[other])
    return {**free, **{name: fixed[name] for name in dims if name in fixed}}


def shapes_text(shapes: Mapping[str, Sequence[int | str]]) -> str:
    """Return the shapes of the first tensors as text, and the number of further tensors."""
    return first_of([f"{name}[{', '.join(map(str, shape))}]" for name, shape in shapes.items()])


def first_of(tensors: Sequence[str]) -> str:
    """Return the first of these texts joined, and the number of further tensors."""
    more = len(tensors) - _TOLD
    return ", ".join(tensors[:_TOLD]) + (f" and {more} more tensor{'s' * (more > 1)}" if more > 0 else "")


def parsed(
    shapes: Mapping[str, Any] | str, *, twice: bool = False
) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, Any]]:
    """Return the dimensions by tensor, in the order of {"x": "b n", "w": "n"} or "x=b n, w=n", and the values of other
    arguments, as in "margin=1.0". With `twice` a tensor may have a dimension twice. Raises UnreadableError."""
    if isinstance(shapes, str):
        parts = [part.partition("=") for part in shapes.replace(";", ",").split(",") if part.strip()]
        if bad := [name for name, equals, _ in parts if not equals]:
            raise UnreadableError(f"shapes: {bad[0].strip()!r} is no tensor with its dimensions, such as 'x=b n, w=n'")
        shapes = {name.strip(): said.strip() for name, _, said in parts}
    shapes = {
        name: " ".join(map(str, said)) if isinstance(said, (tuple, list)) else said for name, said in shapes.items()
    }
    read = {name: _read(said) for name, said in shapes.items()}
    numbers = {name: found[0] for name, found in read.items() if found}
    words = {name: str(said) for name, said in shapes.items() if name not in numbers}
    found = {name: tuple(dims.lower().split()) for name, dims in words.items()}
    given = {dim for dims in words.values() for dim in dims.split()}
    if len({dim for dims in found.values() for dim in dims}) < len(given):
        raise UnreadableError("shapes: dimensions are named in small letters, and two become one")
    for name, dims in found.items():
        if number := next((dim for dim in dims if dim.isdigit()), ""):
            how = f"give it one, and its extent beside the tensors, such as 'k={number}', if it has no other"
            raise UnreadableError(f"shapes: {name}={' '.join(dims)}: {number} is no name of a dimension: {how}")
        if any(dim == OUTER for dim in dims[1:]) or (len({*dims}) < len(dims) and not twice):
            raise UnreadableError(
                f"shapes: {name}={' '.join(dims)}: each name stands there once, and '...' before them"
            )
    return found, numbers


def _read(said: Any) -> tuple[Any, ...]:
    """Return a tuple of the stated value; () if the text states dimensions of a tensor."""
    if not isinstance(said, str):
        return (said,)
    try:
        value = ast.literal_eval(said)
    except (SyntaxError, ValueError):  # such as "b n" or ""
        return ()
    return () if value is Ellipsis else (value,)
