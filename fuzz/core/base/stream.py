"""Counter-based random bits, and the numbers that are made from them.

Only integer arithmetic modulo 2**64 and exactly rounded float64 operations are used, so a key gives the same bits with
every version of NumPy, Python and the C library. No transcendental function is called, since its last bit may differ.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count as counted
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Reals = NDArray[np.float64]
_T = TypeVar("_T")

_ROLLS = 128
"""The number of rolls that a Dice draws at once. A sketch and the operands of most ops need fewer, about 100."""
_FEW = 32
"""The number of rolls that are converted to integers at first. Measured for a table of shapes, which has 1,500 dice
that roll 5 to 9 times each: 6 ms, against 17 ms if all rolls of each are converted."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND, _THIRD = np.uint64(30), np.uint64(27), np.uint64(31)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_AT_ONCE = 8192
"""The number of random words mixed at a time, so that they stay in the cache: 20,000 take a third of the time."""
_SIXTEEN, _THIRTY_TWO = np.uint64(16), np.uint64(32)
_EVEN_FIELDS = np.uint64(0x0000FFFF0000FFFF)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_IRWIN_HALL_MEAN = 8 * 32767.5
_IRWIN_HALL_SCALE = 1.0 / math.sqrt(8 * (2**32 - 1) / 12)  # sqrt is correctly rounded everywhere


def _mixed(words: Words) -> Words:
    """Put each random word twice through the finaliser of SplitMix64 (Steele, Lea and Flood 2014), a bijection of
    64-bit words, in place. Return the words."""
    scratch = np.empty(min(words.size, _AT_ONCE), np.uint64)
    for start in range(0, words.size, _AT_ONCE):
        part = words[start : start + _AT_ONCE]
        shifted = scratch[: part.size]
        for _ in range(2):
            part ^= np.right_shift(part, _FIRST, out=shifted)
            part *= _FIRST_FACTOR
            part ^= np.right_shift(part, _SECOND, out=shifted)
            part *= _SECOND_FACTOR
            part ^= np.right_shift(part, _THIRD, out=shifted)
    return words


_KEPT = 1 << 15
"""The number of cached counters. Few requests are for more words."""


def _counters(count: int) -> Words:
    """Return the numbers that are added to a stream's key to get its first `count` random words."""
    return _first_counters()[:count] if count <= _KEPT else np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN


@cache
def _first_counters() -> Words:
    return np.arange(1, _KEPT + 1, dtype=np.uint64) * _GOLDEN


def _normal(words: Words) -> Reals:
    """Return one number of mean 0 and variance 1 for two random words: a scaled sum of eight 16-bit uniforms
    (Irwin-Hall)."""
    numbers = np.empty(words.size // 2)
    for start in range(0, words.size, _AT_ONCE):
        part, sums = words[start : start + _AT_ONCE], numbers[start // 2 : (start + _AT_ONCE) // 2]
        # Add two fields of a word at a time, in the halves of another word. This is much quicker than a sum along an
        # axis.
        fields = part >> _SIXTEEN
        fields &= _EVEN_FIELDS
        fields += part & _EVEN_FIELDS
        halves = fields[0::2] + fields[1::2]
        sums[:] = (halves & _LOW_HALF) + (halves >> _THIRTY_TWO)
        sums -= _IRWIN_HALL_MEAN
        sums *= _IRWIN_HALL_SCALE
    return numbers


Asked = tuple[int, int]
"""The key of a stream, and the number of random words or normal numbers that will be needed from it."""


class Ahead:
    """Numbers of many streams, drawn together because a call of NumPy costs as much as hundreds of numbers. They are
    the same numbers that each stream would draw by itself."""

    def __init__(self, normals: Sequence[Asked] = (), words: Sequence[Asked] = ()) -> None:
        self._normals: dict[int, Reals] = {}
        self._words: dict[int, Words] = {}
        asks = [*((key, 2 * count) for key, count in normals), *words]
        if not asks:
            return
        counts = [count for _, count in asks]
        ramp = _counters(max(counts))
        drawn, at = np.empty(sum(counts), np.uint64), 0
        for key, count in asks:
            np.add(ramp[:count], np.uint64(key), out=drawn[at : at + count])
            at += count
        _mixed(drawn)
        at = 0
        numbers = _normal(drawn[: 2 * sum(count for _, count in normals)])
        for key, count in normals:
            self._normals[key] = numbers[at : at + count]
            at += count
        at *= 2
        for key, count in words:
            self._words[key] = drawn[at : at + count]
            at += count

    def words(self, key: int, count: int) -> Words | None:
        """Return the first random words of a stream, or None if they were not drawn ahead."""
        found = self._words.get(key)
        return found[:count] if found is not None and len(found) >= count else None

    def normal(self, key: int, count: int) -> Reals | None:
        """Return the first normal numbers of a stream, or None if not drawn ahead. The caller may overwrite them."""
        found = self._normals.get(key)
        return found[:count].copy() if found is not None and len(found) >= count else None


_NOTHING_AHEAD = Ahead()


@dataclass(frozen=True)
class Stream:
    """A stateless source of random numbers: the same key and request always give the same numbers."""

    key: int
    ahead: Ahead = field(default=_NOTHING_AHEAD, repr=False, compare=False)
    """Numbers of this stream and its children that were drawn ahead, together with those of others."""

    def child(self, label: str) -> Stream:
        """Return the independent stream named `label`."""
        return Stream(child_key(self.key, label), self.ahead)

    def words(self, count: int) -> Words:
        """Return `count` random words of 64 bits."""
        ready = self.ahead.words(self.key, count)
        if ready is not None:
            return ready
        return _mixed(_counters(count) + np.uint64(self.key))

    def uniform(self, count: int) -> Reals:
        """Return `count` multiples of 2**-53, uniform on [0, 1)."""
        return (self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def normal(self, count: int) -> Reals:
        """Return `count` numbers of mean 0 and variance 1, within +-4.9."""
        ready = self.ahead.normal(self.key, count)
        return _normal(self.words(2 * count)) if ready is None else ready

    def integers(self, count: int, low: int, high: int) -> NDArray[np.int64]:
        """Return `count` integers from low to high, both included. The bias is below 2**-40 for ranges under 2**24."""
        words, span = self.words(count), high - low + 1
        # A division takes ten times as long as a mask, which gives the same result for a power of two.
        reduced = words & np.uint64(span - 1) if span & (span - 1) == 0 else words % np.uint64(span)
        found = reduced.view(np.int64)
        return found + low if low else found


def child_key(key: int, label: str) -> int:
    """Return the key of the child `label` of the stream with this key."""
    digest = hashlib.blake2b(label.encode(), digest_size=8, key=key.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little")


class Dice:
    """Many small decisions from one stream, in the order in which they are made. Hypothesis would be far slower."""

    def __init__(self, stream: Stream, words: Words | None = None, number: int = 0) -> None:
        self._words = _rolls(stream.words(_ROLLS) if words is None else words, stream, number)

    def below(self, count: int) -> int:
        """Return an integer from 0 to count - 1."""
        return next(self._words) % count

    def one_in(self, count: int) -> bool:
        """Return True once in `count` times."""
        return self.below(count) == 0

    def pick(self, options: Sequence[_T]) -> _T:
        """Return one of the options."""
        return options[self.below(len(options))]


def _rolls(words: Words, stream: Stream, number: int) -> Iterator[int]:
    """Yield random words for dice: first those that were drawn at once, then further ones as needed."""
    yield from words[:_FEW].tolist()
    yield from words[_FEW:].tolist()
    for more in counted():
        yield from stream.child(f"more {number} {more}").words(_ROLLS).tolist()


def dice_of(stream: Stream, count: int) -> list[Dice]:
    """Return `count` dice with their own rolls. This is much cheaper than making them one by one."""
    words = stream.words(count * _ROLLS).reshape(count, _ROLLS)
    return [Dice(stream, each, place) for place, each in enumerate(words)]


def dice_each(streams: Sequence[Stream]) -> list[Dice]:
    """Return one dice for each stream, drawn together."""
    ahead = Ahead(words=[(stream.key, _ROLLS) for stream in streams])
    return [Dice(Stream(stream.key, ahead)) for stream in streams]
