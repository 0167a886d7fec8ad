"""Sums for simulated kernels in NumPy, term by term, in the order that a contract declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any as Anything
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.dtypes import Format
from oracles.formula.exact.centre import at_place
from oracles.matrix_units import cut, exponents
from oracles.summation import AnyOrder, Blocks, Lanes, Pairwise, Sequential, Summation, Tiles

Array = NDArray[Anything]


def total(terms: Array, order: Summation) -> Array:
    """Return the sum of `terms` (..., n) over the last axis in their own dtype, in the declared order."""
    n = terms.shape[-1]
    if n == 0:
        return np.zeros(terms.shape[:-1], terms.dtype)
    if isinstance(order, Sequential | AnyOrder):
        return _chain(terms)
    if isinstance(order, Lanes):
        return _lanes(terms, order)
    if isinstance(order, Tiles):
        return _tree(_columns(terms, order.width))
    assert isinstance(order, Blocks | Pairwise)
    blocks = np.stack([_chain(terms[..., k : k + order.block]) for k in range(0, n, order.block)], axis=-1)
    return _chain(blocks) if isinstance(order, Blocks) else _tree(blocks)


def cut_off(terms: F64, order: Blocks, dtype: Format) -> F64:
    """Return the sum of `terms` (..., n) over the last axis by blocks that truncate; terms may have any bits."""
    found = np.zeros(terms.shape[:-1])
    for k in range(0, terms.shape[-1], order.block):
        added = np.concatenate([found[..., None], terms[..., k : k + order.block]], axis=-1)
        found = cut(added, exponents(added), order.extra, dtype)
    return found


def _chain(terms: Array) -> Array:
    # Unlike reduce, accumulate adds strictly one term after the other.
    return np.asarray(np.add.accumulate(terms, axis=-1)[..., -1])


def _tree(parts: Array) -> Array:
    while parts.shape[-1] > 1:
        half = parts.shape[-1] // 2
        paired = parts[..., :half] + parts[..., half : 2 * half]
        parts = np.concatenate([paired, parts[..., 2 * half :]], axis=-1)
    return parts[..., 0]


def _columns(terms: Array, width: int) -> Array:
    """Return partial sums (..., width) over every width-th term, zero-padded."""
    padding = -terms.shape[-1] % width
    padded = np.concatenate([terms, np.zeros((*terms.shape[:-1], padding), terms.dtype)], axis=-1)
    columns = padded.reshape(*terms.shape[:-1], padded.shape[-1] // width, width)
    return np.asarray(np.add.accumulate(columns, axis=-2)[..., -1, :])


def _lanes(terms: Array, order: Lanes) -> Array:
    block = order.lanes * order.accumulators
    main = terms.shape[-1] // block * block
    partial = _columns(terms[..., :main], block) if main else np.zeros((*terms.shape[:-1], block), terms.dtype)
    tail = terms[..., main:]
    if order.tail == "predicated":
        for start in range(0, tail.shape[-1], order.lanes):
            piece = tail[..., start : start + order.lanes]
            partial[..., : piece.shape[-1]] += piece
        return _tree(partial)
    start_value = _tree(partial)
    return _chain(np.concatenate([start_value[..., None], tail], axis=-1)) if tail.shape[-1] else start_value


Block = tuple[F64, F64]
"""The effect of neighbouring places on a state: the factor by which they multiply it, and the term that they add."""
Advanced = Callable[[F64, F64, F64], F64]
"""A function of h, a and b that returns the state after one place: a h + b."""
_LONGEST_BLOCK = 8


def scanned(
    args: Sequence[F64], axis: int, n: int, way: Literal["places", "blocks", "tree"], random: np.random.Generator,
    advanced: Advanced, product: Callable[[F64, F64], F64],
) -> F64:  # fmt: skip
    """Return all states of a recurrence along an axis. `args` are the factors, the addends, and the initial state."""
    a, b, h = args
    if not n:
        return np.asarray(at_place(a * h + b, axis, slice(0, 0)))
    places = [(at_place(a, axis, place), at_place(b, axis, place)) for place in range(n)]
    if way == "places":
        found = list[F64]()
        for each in places:
            h = advanced(h, *each)
            found.append(h)
        return np.concatenate(found, axis)

    def after(before: Block, block: Block) -> Block:
        return product(before[0], block[0]), advanced(before[1], *block)

    if way == "blocks":
        _carry_on(places, int(random.integers(2, _LONGEST_BLOCK + 1)), after)
    else:
        step = 1
        while step < n:
            places = [after(places[at - step], each) if at >= step else each for at, each in enumerate(places)]
            step *= 2
    return np.concatenate([advanced(h, *each) for each in places], axis)


def _carry_on(places: list[Block], size: int, after: Callable[[Block, Block], Block]) -> None:
    """Replace each place by the joint effect of all places up to it: first within blocks, then from block to block."""
    for first in range(0, len(places), size):
        for place in range(first + 1, min(first + size, len(places))):
            places[place] = after(places[place - 1], places[place])
        for place in range(first, min(first + size, len(places)) if first else first):
            places[place] = after(places[first - 1], places[place])
