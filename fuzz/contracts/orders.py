"""Orders of sums, as trees of additions: the orders that kernels usually have, and a way to read the order of a kernel
from the sums of designed inputs (FPRev, arXiv 2411.00442).

One term is huge, another is its negative, and all others are 1. A 1 that is added to a huge term before the two cancel
is lost; all others are counted. So the total tells how many terms lie below the addition at which the two huge terms
meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64
from oracles.lazy import lazy

Joins = list[tuple[int, int]]
_NUMPY = 128, 8
"""The most terms that NumPy adds in lanes, and the number of lanes; NumPy splits longer sums in halves."""


@dataclass(frozen=True)
class Tree:
    """The order of a sum: values 0 to n - 1 are the terms, and each join adds two values and makes the next one."""

    n: int
    joins: tuple[tuple[int, int], ...]

    @lazy
    def depths(self) -> NDArray[np.int64]:
        """Return the number of additions that each term goes through."""
        depth = np.zeros(self.n + len(self.joins), np.int64)
        for at in range(len(self.joins) - 1, -1, -1):
            for part in self.joins[at]:
                depth[part] = depth[self.n + at] + 1
        return depth[: self.n]

    @property
    def chain(self) -> int:
        """The largest number of additions that a term goes through."""
        return int(self.depths.max(initial=0))

    def total(self, terms: F64) -> F64:
        """Return the sums of terms along the last axis, calculated in float32 in this order, as float64."""
        values = [*np.moveaxis(terms.astype(np.float32), -1, 0)]
        with np.errstate(all="ignore"):
            for one, two in self.joins:
                values.append(values[one] + values[two])
        found: F64 = values[-1].astype(np.float64)
        return found

    @lazy
    def runs(self) -> Sequence[Sequence[int]]:
        """Return the terms in chains, each of which is added one term after the other; each term is in one chain."""
        run: list[list[int] | None] = [[at] for at in range(self.n)]
        for one, two in self.joins:
            first, second = run[one], run[two]
            if first is not None and len(first) > 1 and two < self.n:
                pass
            elif second is not None and len(second) > 1 and one < self.n:
                first, second, one, two = second, first, two, one
            elif one >= self.n or two >= self.n:
                run.append(None)
                continue
            assert first is not None
            assert second is not None
            run.append([*first, *second])
            run[one] = run[two] = None
        return [_in_order(each) for each in run if each is not None]

    @property
    def words(self) -> str:
        """The name of the order, such as "in 8 lanes"."""
        long = [each for each in self.runs if len(each) > 2]
        if self.n < 3 or len(self.runs) == 1:
            steps = {b - a for a, b in pairwise(long[0])} if long else {1}
            return {frozenset({1}): "one after the other", frozenset({-1}): "from the last term to the first"}.get(
                frozenset(steps), "one after the other, shuffled"
            )
        steps = {abs(b - a) for each in long for a, b in pairwise(each)}
        size = max(map(len, long), default=0)
        if not long and self.chain <= self.n.bit_length() + 1:
            return "in pairs"
        if len(steps) == 1:
            step = steps.pop()
            if step == 1:
                return f"in blocks of {size}" if len(long) > 1 else "in an order of its own"
            if len(long) <= step:
                return f"in {step} lanes"
            if len(long) % step == 0 or len(long) > 2 * step:
                return f"in {step} lanes, blocks of {step * size}"
        return "in an order of its own"


def _in_order(run: list[int]) -> list[int]:
    """Return a chain of terms in the order in which they are added; of the first two terms either may come first."""
    first, rest = sorted(run[:2]), run[2:]
    return [*(first[::-1] if rest and rest[0] < first[1] else first), *rest]


class _Adding:
    """A recorder of the additions of a sum of `n` terms."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.joins: Joins = []

    def two(self, one: int, two: int) -> int:
        self.joins.append((one, two))
        return self.n + len(self.joins) - 1

    def chain(self, parts: Sequence[int]) -> int:
        found = parts[0]
        for each in parts[1:]:
            found = self.two(found, each)
        return found

    def folded(self, parts: Sequence[int]) -> int:
        """Add the second half of the partial sums to the first half, repeatedly, until one is left."""
        parts = [*parts]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [*(self.two(parts[at], parts[half + at]) for at in range(half)), *parts[2 * half :]]
        return parts[0]

    def paired(self, parts: Sequence[int]) -> int:
        """Add neighbouring partial sums, repeatedly, until one is left."""
        parts = [*parts]
        while len(parts) > 1:
            pairs = [self.two(parts[at], parts[at + 1]) for at in range(0, len(parts) - 1, 2)]
            parts = [*pairs, *parts[2 * len(pairs) :]]
        return parts[0]

    def lanes(self, parts: Sequence[int], width: int, *, tail: bool) -> int:
        """Add partial sums in `width` lanes, and then the lanes; with `tail` a rest is added one by one at the end."""
        whole = len(parts) // width * width if tail else len(parts)
        columns = [parts[lane:whole:width] for lane in range(min(width, whole))]
        rest = [*parts[whole:]]
        sums = [self.folded([self.chain(each) for each in columns])] if columns else []
        return self.chain([*sums, *rest])

    def numpy(self, parts: Sequence[int]) -> int:
        block, width = _NUMPY
        n = len(parts)
        if n < width:
            return self.chain(parts)
        if n <= block:
            whole = n // width * width
            sums = [self.chain(parts[lane:whole:width]) for lane in range(width)]
            return self.chain([self.paired(sums), *parts[whole:]])
        half = n // 2 // width * width
        return self.two(self.numpy(parts[:half]), self.numpy(parts[half:]))


def sequential(n: int) -> Tree:
    """Return the order of a plain loop."""
    return Tree(n, _made(n, "chain"))


@lru_cache(maxsize=16)
def known(n: int) -> tuple[Tree, ...]:
    """Return the orders that kernels usually have, for `n` terms; that of a plain loop comes first."""
    return tuple(_known(n))


def _known(n: int) -> Iterator[Tree]:
    yield sequential(n)
    adding = _Adding(n)
    adding.chain(range(n - 1, -1, -1))
    yield Tree(n, tuple(adding.joins))
    for width in (2, 4, 8, 16, 32, 64, 128, 256, 1024):
        for tail in (True, False) if width < n else ():
            yield Tree(n, _made(n, "lanes", width, tail=tail))
    for block in (16, 32, 64, 128, 512):
        if block < n:
            yield _blocks(n, block, "folded", "chain")
            yield _blocks(n, block, "chain", "paired")
    yield Tree(n, _made(n, "numpy"))
    yield Tree(n, _made(n, "folded"))
    yield Tree(n, _made(n, "paired"))


def _made(n: int, how: str, *args: int, **options: bool) -> tuple[tuple[int, int], ...]:
    adding = _Adding(n)
    getattr(adding, how)(range(n), *args, **options)
    return tuple(adding.joins)


def _blocks(n: int, block: int, within: str, between: str) -> Tree:
    """Return the order that adds neighbouring terms in blocks first, and then the sums of blocks."""
    adding = _Adding(n)
    parts = [getattr(adding, within)(range(at, min(at + block, n))) for at in range(0, n, block)]
    getattr(adding, between)(parts)
    return Tree(n, tuple(adding.joins))


Pair = tuple[int, int]
Meeting = Callable[[Sequence[Pair]], Sequence[int | None]]
"""A function that returns for each pair of terms how many terms lie below the addition where both meet, or None."""


class UnreadableSumError(Exception):
    """The order of a sum cannot be read: measurements fit no tree, or too many would be needed."""


@dataclass
class _Path:
    """A term, and the parts of the sum that are added to it on the way to the total, one or more at each addition."""

    term: int
    met: list[list[_Path]] = field(default_factory=list)


@dataclass
class _PathSearch:
    """A group of terms that lie below one addition, to be sorted into paths."""

    found: list[_Path]
    terms: list[int]
    below: int
    """The number of terms below the addition."""


def read_tree(n: int, meeting: Meeting, most: int) -> Tree:
    """Return the order of a sum of `n` terms after at most `most` calls of `meeting`. Raises UnreadableSumError."""
    found = list[_Path]()
    tasks = [_PathSearch(found, list(range(n)), n + 1)]
    while tasks:
        most -= sum(len(each.terms) - 1 for each in tasks)
        if most < 0:
            raise UnreadableSumError("it takes too many questions")
        # The pivot is the middle term: a plain loop, in either direction, takes twice as many questions as terms.
        pivots = [each.terms.pop(len(each.terms) // 2) for each in tasks]
        pairs = [(pivot, each) for pivot, task in zip(pivots, tasks, strict=True) for each in task.terms]
        answers = iter(meeting(pairs) if pairs else ())
        tasks = [
            more
            for pivot, task in zip(pivots, tasks, strict=True)
            for more in _split(pivot, task, [next(answers) for _ in task.terms])
        ]
    joins: Joins = []
    _join(found[0], n, joins)
    return Tree(n, tuple(joins))


def _split(pivot: int, task: _PathSearch, answers: Sequence[int | None]) -> list[_PathSearch]:
    """Add the path of the pivot to `task.found`, and return the searches that remain. Raises UnreadableSumError."""
    met = list[tuple[int, int]]()
    for below, term in zip(answers, task.terms, strict=True):
        if below is None:
            raise UnreadableSumError("what is counted is no number of terms")
        met.append((below, term))
    path, size, tasks = _Path(pivot), 1, list[_PathSearch]()
    task.found.append(path)
    for below, group in groupby(sorted(each for each in met if each[0] < task.below), key=lambda each: each[0]):
        terms, parts = [term for _, term in group], list[_Path]()
        if below != size + len(terms):
            raise UnreadableSumError("what meets does not add up")
        path.met.append(parts)
        tasks.append(_PathSearch(parts, terms, below))
        size = below
    apart = [term for below, term in met if below >= task.below]
    return [*tasks, *([_PathSearch(task.found, apart, task.below)] if apart else [])]


def _join(path: _Path, n: int, joins: Joins) -> int:
    value = path.term
    for parts in path.met:
        for part in parts:
            other = _join(part, n, joins)
            joins.append((value, other))
            value = n + len(joins) - 1
    return value
