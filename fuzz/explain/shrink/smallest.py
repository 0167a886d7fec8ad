"""Sweeping: a dense search for a case that is smaller than a shrunk one and fails in the same way. Shrinking only cuts
blocks out of the case's values. Here every smaller case is built anew, with the same op, dtypes, layouts and shared
memory, with values of the shrunk case and with several draws of others."""

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
"""The values that each size is tried with."""
LUCKY: tuple[Values, ...] = tuple(("normal", seed) for seed in range(100, 132))
"""Values for failures that depend on luck, such as whether two orders of a sum of three numbers differ."""
_LONG = 64
"""The length up to which longer rows are tried if there are fewer of them than in the case."""
_FIRST, _LAST = 1536, 64
"""The most extents that are tried, counted from 1, and counted down from the extent of the case."""
_SHORT, _FEW = 260, 3
"""The extent beyond which a case counts as long, and the number of draws that a long one is tried with."""
_QUICK = USUAL_WORK
"""The number of terms in its largest step (`Op.work`) beyond which a draw counts as long, too."""
_BATCH = 64


@dataclass(frozen=True)
class Swept:
    """The result of a sweep: the number of runs, and the smallest case that fails."""

    runs: int
    smaller: Case | None
    """A failing case with fewer rows, or with as many shorter ones; None if there is none."""
    shown: bool = True
    """Whether the case itself fails when it is built anew; if it does not, passing smaller cases prove nothing."""

    @property
    def smallest(self) -> bool:
        """Whether no smaller case fails."""
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
    """Run every case smaller than `case`, the smallest first. Raises OutOfTimeError if the trials' time is over."""
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
    """Yield draws with fewer rows, up to the base's length or `_LONG`; then draws with as many, shorter rows."""
    yield from _with_smaller_extents(base, values)
    own = batch_of(base)
    sizes = [(rows, n) for rows in range(1, own) for n in ends_of(range(1, max(base.n, _LONG) + 1))]
    sizes += [(own, n) for n in ends_of(range(1, base.n))]
    for rows, n in sizes:
        small = replace(sized(base, rows), n=n)
        yield from _valued(small, values, is_short=n <= _SHORT)


def _with_smaller_extents(base: Draw, values: Sequence[Values]) -> Iterator[Draw]:
    """Yield draws in which one named dimension, other than the row's, is shorter."""
    for dim in (dim for dim in base.sizes if dim != OPS[base.op].row):
        for size in ends_of(range(1, base.sizes[dim])):
            yield from _valued(extended(base, {dim: size}), values, is_short=size <= _SHORT)


def _valued(small: Draw, values: Sequence[Values], *, is_short: bool) -> Iterator[Draw]:
    """Yield the draw with each of these values, or with a few if it is long."""
    chosen = values if is_short and small.work <= _QUICK else values[:_FEW]
    yield from (with_values(small, *each) for each in chosen)


def ends_of(every: range) -> list[int]:
    """Return all of these extents, or the first and the last ones if there are very many. So a long row is not searched
    in full: a threshold such as 32768 is found by halving."""
    return [*every[:_FIRST], *every[_FIRST:][-_LAST:]]


def _made(draws: Iterable[Draw]) -> Iterator[Case]:
    for draw in draws:
        with contextlib.suppress(CaseError):
            yield made(draw)


def batches(items: Iterator[_T], size: int) -> Iterator[list[_T]]:
    """Yield the items in lists of `size`."""
    while batch := list(islice(items, size)):
        yield batch
