"""Dimensions of a reference's tensors, each with an extent in either of the two calls that are traced.

Extents are drawn so that no two dimensions have the same pair of them: a pair says which dimension it is.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oracles.formula.made import Counts, completed, follows, short
from oracles.operand import OUTER, OpError

Pair = tuple[int, int]
"""An extent in both calls."""
ONE: Pair = 1, 1
_PAIRS: Sequence[Pair] = (
    (5, 7), (11, 5), (13, 17), (19, 29), (29, 13), (31, 37), (17, 41), (41, 11), (37, 29), (43, 59), (47, 61), (59, 67),
)  # fmt: skip
"""Primes, so that a product says which dimensions it is of; not all grow, so that one is no function of another, and no
two grow by as much, so that no difference is the same in both calls."""
_FURTHER: Sequence[Pair] = (
    (12, 9), (16, 22), (10, 14), (18, 33), (20, 7), (15, 24), (8, 25), (6, 27), (21, 4), (26, 13), (36, 5), (3, 30),
)  # fmt: skip
"""Those of further calls: odd and even ones, with any rest, so that whole parts of them show; short, as all of them
together are the work of many calls."""
_THIRD = (8, 16, 4, 2, 6, 12, 10, 9, 14, 15, 18, 20)
"""What the guard tries beside them: extents that tiles and halves divide."""


TURNS = len(_FURTHER)
"""So often further extents are drawn."""
_MOST_TIMES = 65
_TOLD = 6
"""The tensors whose shapes an error names: a network has hundreds of weights, which come after its inputs."""


NO_ELEMENTS = "what it makes has no elements along some dimension, whatever the extents: leave that out"


class UnreadableError(OpError):
    """A reference that cannot be read. The message says which operation of which line, and why."""


class UnsaidError(UnreadableError):
    """Tensors of which nobody says what dimensions they have."""


class MisfitError(UnreadableError):
    """An extent, or a place, that follows from no others in a way that is known: with other ones it may."""


class FurtherCallsError(Exception):
    """A number that follows from extents in a way that two calls do not show."""


class MisnamedError(UnreadableError):
    """A word about a tensor that the reference does not have, or nothing that it returns: no other way to read it
    helps."""


Square = tuple[tuple[str, str], ...]
"""Dimensions that are as long."""


@dataclass(frozen=True)
class Dim:
    """A named dimension."""

    name: str
    sizes: Pair


Axis = tuple[Dim, ...]
"""An axis of a tensor: the dimensions whose product it is, () where it has one element."""


def extent(dims: Iterable[Dim]) -> Pair:
    """Return the extent of the product of dimensions in both calls."""
    first, second = zip(*(dim.sizes for dim in dims), strict=True) if (dims := [*dims]) else ((), ())
    return math.prod(first), math.prod(second)


@dataclass(frozen=True)
class Drawn:
    """How the extents of both calls are drawn."""

    times: int = 1
    """They are multiples of it."""
    least: int = 1
    """Those of the first tensor, but for its first one, are so long at least, so that a window fits in."""


def declared_dims(
    shapes: Mapping[str, Sequence[str]],
    fixed: Mapping[str, int],
    drawn: Drawn | None = None,
    counts: Counts | None = None,
    turn: int | None = None,
    tied: Square = (),
) -> Mapping[str, Dim]:
    """Return all dimensions by name, in their order, with extents for both calls; those that are fixed have theirs, and
    those that follow from others as many as `counts` says, and `tied` ones the same. Further ones have a number, their
    `turn`."""
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
    for one, other in tied:
        pairs[other] = pairs.get(one, pairs[other])
    sizes = {**pairs, **{name: (size, size) for name, size in fixed.items()}}
    first, second = (_whole(counts, {name: pair[which] for name, pair in sizes.items()}, fixed) for which in (0, 1))
    return {name: Dim(name, (first[name], second[name])) for name in names}


def _whole(counts: Counts, sizes: Mapping[str, int], fixed: Mapping[str, int]) -> Mapping[str, int]:
    """All extents, of which those that others follow from are such multiples that these are whole numbers."""
    bases = follows(counts, counts) - fixed.keys()
    for times in range(1, _MOST_TIMES):
        many = {name: times * size if name in bases else size for name, size in sizes.items()}
        if not short(counts, many):
            return completed(counts, many)
    raise UnreadableError(f"no extents are found of which {' and '.join(counts)} follow in whole numbers")


def third(dims: Iterable[str], fixed: Mapping[str, int], drawn: Drawn, tied: Square = ()) -> Mapping[str, int]:
    """Return extents for a third call, which is not traced."""
    free = {name: drawn.times * size for name, size in zip(dims, _THIRD, strict=False)}
    for one, other in tied:
        free[other] = free.get(one, free[other])
    return {**free, **{name: fixed[name] for name in dims if name in fixed}}


def shapes_text(shapes: Mapping[str, Sequence[int | str]]) -> str:
    """Return the shapes of the first tensors in words, and how many more there are."""
    return first_of([f"{name}[{', '.join(map(str, shape))}]" for name, shape in shapes.items()])


def first_of(tensors: Sequence[str]) -> str:
    """Return the words for the first tensors, and how many more there are."""
    more = len(tensors) - _TOLD
    return ", ".join(tensors[:_TOLD]) + (f" and {more} more tensor{'s' * (more > 1)}" if more > 0 else "")


def parsed(
    shapes: Mapping[str, Any] | str, *, twice: bool = False
) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, Any]]:
    """Return the dimensions by tensor, from {"x": "b n", "w": "n"} or "x=b n, w=n", as they are written there, and the
    values of what is no tensor, from "margin=1.0"; a tensor may have one dimension `twice` where no formula is read."""
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
    """The value that is said, as the only one; none where that is the dimensions of a tensor."""
    if not isinstance(said, str):
        return (said,)
    try:
        value = ast.literal_eval(said)
    except (SyntaxError, ValueError):  # such as b n, or nothing
        return ()
    return () if value is Ellipsis else (value,)
