"""Calls of a reference that it accepts: the extents and dtypes with which it is tried until it takes some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from fuzz.references.asked import AskedReference
from fuzz.references.dims import Dim, Drawn, UnreadableError, declared_dims, extent
from fuzz.references.library import dtypes_of
from fuzz.references.relations import likely, turned

_TRIED = *(Drawn(least=least) for least in (1, 13, 29)), *(Drawn(times=times) for times in (2, 8, 3)), Drawn(4, 29)
"""The extents with which a reference is tried until it accepts some: it may need multiples, or windows must fit."""
_PLACES = 2
"""The most tensors that may turn out to be places or flags although nobody declared it."""
_MOST_ELEMENTS = 1 << 24
"""The most elements of a tensor in a call, since the memory that a reference needs for it is unknown."""


def declared(asked: AskedReference, drawn: Drawn, turn: int | None = None) -> Mapping[str, Dim]:
    """Return the dimensions of a call by name, with their extents in it and, by `turn`, in a further one."""
    return declared_dims(asked.dims, asked.fixed, drawn, asked.counts, turn, asked.tied)


def taken(asked: AskedReference) -> tuple[AskedReference, Drawn, Mapping[str, str]]:
    """Return the first call that the reference accepts, see `accepted`. Raises UnreadableError if it accepts none."""
    return next(accepted(asked))


def accepted(asked: AskedReference) -> Iterator[tuple[AskedReference, Drawn, Mapping[str, str]]]:
    """Yield the calls that the reference accepts, with the dtypes of all tensors. Calls have the requested dtype or
    f32, and extents that are plain, long, multiples, or such that one dimension is half of another."""
    refusal: UnreadableError | None = None
    found = False
    for tried, drawn, most in _tries(asked):
        if found and tried.counts != asked.counts:
            return
        try:
            dims = declared(tried, drawn)
            if refusal is not None and any(_elements(some, dims) > _MOST_ELEMENTS for some in tried.dims.values()):
                continue
            dtypes = dtypes_of(tried, dims, most)
        except UnreadableError as error:
            refusal = refusal or error
        else:
            integers = [name for name, dtype in dtypes.items() if "float" not in dtype]
            counts = turned(tried.dims, tried.counts, integers) if integers else tried.counts
            if counts.keys() != tried.counts.keys():  # integer tensors are only known now
                yield from accepted(replace(asked, counts=counts, dtypes=dtypes))
                return
            found = True
            yield tried, drawn, dtypes
    if not found:
        assert refusal is not None
        raise refusal


def _tries(asked: AskedReference) -> Iterator[tuple[AskedReference, Drawn, int]]:
    """Yield calls to try, each with the most tensors that may be places or flags, the likeliest first."""
    plain = [replace(asked, dtype=dtype) for dtype in dict.fromkeys((asked.dtype, "float32"))]
    halves = () if asked.counts or asked.square else likely(asked.dims, asked.fixed, asked.sizes)
    others = [replace(asked, counts=each) for each in halves]
    yield from product(plain, _TRIED, (0,))
    yield from product(plain, _TRIED[:1], (_PLACES,))
    yield from product(others, _TRIED[:3], (0,))
    yield from product(plain, _TRIED[1:], (_PLACES,))
    yield from product(others, _TRIED[:1], (_PLACES,))


def _elements(some: Sequence[str], dims: Mapping[str, Dim]) -> int:
    return max(extent(dims[each] for each in some))
