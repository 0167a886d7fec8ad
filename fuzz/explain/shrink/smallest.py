"""Sweeping: whether anything smaller than a shrunk case fails in its way too, searched densely and with other values.
Shrinking cuts rows and columns out of the values that it was given. Here everything smaller is built anew around the
shrunk case: the same op, dtypes, layouts and shared memory, its own values, and several draws of others."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.draw import GIVEN, Draw, Frame
from fuzz.core.generate.dims import USUAL_WORK
from fuzz.core.generate.variations import base_of, batch_of, extended, made, sized, with_values
from fuzz.explain.trial.trial import Trials
from oracles.ops import OPS

_T = TypeVar("_T")
Values = tuple[str, int]
"""A recipe that starts from given values, and its seed."""
_VALUES: tuple[Values, ...] = (
    (GIVEN, 0), ("ones", 0), ("integers", 0), ("spike", 1), ("large", 1), ("tiny", 1),
    *(("normal", seed) for seed in range(1, 9)),
)  # fmt: skip
"""Each size is tried with these values."""
LUCKY: tuple[Values, ...] = tuple(("normal", seed) for seed in range(100, 132))
"""Other values, for failures that depend on luck: whether two orders of a sum of three numbers differ."""
_LONG = 64
"""The longest rows tried with fewer rows than the case has, unless the case's own are longer."""
_FIRST, _LAST = 1536, 64
"""The most first numbers that are tried, and the most last ones below the smallest that is known to fail."""
_SHORT, _FEW = 260, 3
"""Rows longer than the first number are tried with only as many draws as the second, since they take long."""
_QUICK = USUAL_WORK
"""Draws whose largest step has more terms count as long, too, see `Op.work`."""
_BATCH = 64


@dataclass(frozen=True)
class Swept:
    """What was tried, and the smallest that fails."""

    runs: int
    smaller: Case | None
    """A case with fewer rows, or with as many that are shorter; None if no such case fails."""
    shown: bool = True
    """Whether the case itself fails when it is built anew; else passing ones prove nothing."""

    @property
    def smallest(self) -> bool:
        """Whether nothing smaller fails."""
        return self.shown and self.smaller is None

    def __str__(self) -> str:
        if not self.shown:
            return "unknown: built anew it passes"
        if self.smaller is None:
            return f"yes: {self.runs:,} smaller cases pass"
        frame = Frame(self.smaller)
        sizes = {**frame.sizes, OPS[self.smaller.op].batch_name: math.prod(frame.batch)}
        return f"NO: {', '.join(f'{dim} = {size}' for dim, size in sizes.items())} fails as well"


def sweep(trials: Trials, case: Case, values: Sequence[Values] = _VALUES) -> Swept:
    """Run everything smaller than `case`, the smallest first. Raises OutOfTimeError as the trials do."""
    base = base_of(case)
    if not any(trials.fails(again) for again in _made([base])):
        return Swept(0, None, shown=False)
    runs = 0
    for cases in batches(_made(_smaller_than(base, values)), _BATCH):
        for smaller, judgement in zip(cases, trials.judge(cases), strict=True):
            runs += judgement is not None
            if trials.holds(smaller, judgement):
                return Swept(runs, smaller)
    return Swept(runs, None)


def _smaller_than(base: Draw, values: Sequence[Values]) -> Iterator[Draw]:
    """Yield fewer rows, of lengths up to that of the base and `_LONG`; then as many that are shorter."""
    yield from _with_smaller_extents(base, values)
    own = batch_of(base)
    sizes = [(rows, n) for rows in range(1, own) for n in ends_of(range(1, max(base.n, _LONG) + 1))]
    sizes += [(own, n) for n in ends_of(range(1, base.n))]
    for rows, n in sizes:
        small = replace(sized(base, rows), n=n)
        yield from _valued(small, values, is_short=n <= _SHORT)


def _with_smaller_extents(base: Draw, values: Sequence[Values]) -> Iterator[Draw]:
    """Yield draws with each named dimension, except the row's, shorter by itself."""
    for dim in (dim for dim in base.sizes if dim != OPS[base.op].row):
        for size in ends_of(range(1, base.sizes[dim])):
            yield from _valued(extended(base, {dim: size}), values, is_short=size <= _SHORT)


def _valued(small: Draw, values: Sequence[Values], *, is_short: bool) -> Iterator[Draw]:
    """Yield the draw with all of these values, or with few if it takes long."""
    chosen = values if is_short and small.work <= _QUICK else values[:_FEW]
    yield from (with_values(small, *each) for each in chosen)


def ends_of(every: range) -> list[int]:
    """Return all of these numbers; of very many the first and the last. A long row is not searched in full: an index
    that ends at 32768 is found by halving."""
    return [*every[:_FIRST], *every[_FIRST:][-_LAST:]]


def _made(draws: Iterable[Draw]) -> Iterator[Case]:
    for draw in draws:
        with contextlib.suppress(CaseError):
            yield made(draw)


def batches(items: Iterator[_T], size: int) -> Iterator[list[_T]]:
    """Yield the items in lists of `size`."""
    while batch := list(islice(items, size)):
        yield batch
