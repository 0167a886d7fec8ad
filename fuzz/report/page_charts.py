"""The charts of the nightly page: their values, and the coordinates of their parts. `page_charts.html` draws them as
SVG.

The page is one file without scripts that follows dark mode, so its style sheet gives the colours. No chart library does
this: matplotlib takes a third of a second for a chart and fixes its colours, and pygal adds a script to each chart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fuzz.findings.database_views import Mark, TargetTotals
from oracles.dtypes import ITEMSIZE

Curve = Sequence[tuple[float, float]]
"""Points (n, value), in the order of n."""


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis that maps values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the pixel of a value; values outside the axis are moved to its ends."""
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)


@dataclass(frozen=True)
class Sparkline:
    """A small chart of err/budget of one target by n, on a linear scale that ends at 1 or at the largest value."""

    title: str
    curve: Curve
    width: float = 150.0
    height: float = 26.0

    @cached_property
    def _x(self) -> Axis:
        lengths = [n for n, _ in self.curve]
        return Axis(min(lengths), max(max(lengths), 2 * min(lengths)), 2, self.width - 2)

    @cached_property
    def _top(self) -> float:
        return max(1.0, max(value for _, value in self.curve))

    def at(self, n: float, value: float) -> tuple[float, float]:
        """Return the pixels (x, y) of a point."""
        return self._x.at(n), round(self.height - 2 - value / self._top * (self.height - 4), 1)

    @property
    def words(self) -> str:
        lengths, worst = [n for n, _ in self.curve], max(value for _, value in self.curve)
        return f"From n = {min(lengths):g} to {max(lengths):g}; the highest is {worst:.3g}."


@dataclass(frozen=True)
class Bars:
    """A chart with one bar for each minute."""

    title: str
    unit: str
    values: Mapping[int, float]
    width: float = 720.0
    height: float = 150.0

    @property
    def most(self) -> float:
        return max(self.values.values()) or 1.0

    @property
    def named(self) -> list[int]:
        """The minutes that are labelled below the axis."""
        return sorted({0, max(self.values) // 2, max(self.values)})

    @property
    def step(self) -> float:
        return (self.width - 60) / (max(self.values) + 1)

    def tall(self, value: float) -> float:
        return value / self.most * (self.height - 34)

    @property
    def words(self) -> str:
        average = sum(self.values.values()) / len(self.values)
        return f"{len(self.values)} minutes; at most {self.most:,.0f} and on average {average:,.0f} {self.unit}."


@dataclass(frozen=True)
class TargetAccuracy:
    """One line in the table of a kernel: a target and a dtype."""

    name: str
    dtype: str
    worst: Mark
    runs: int
    spark: Sparkline


@dataclass(frozen=True)
class KernelAccuracy:
    """One kernel with the lines of its targets."""

    kernel: str
    op: str
    worst: float
    targets: Sequence[TargetAccuracy]


def accuracy_of(targets: Sequence[TargetTotals], marks: Sequence[Mark]) -> list[KernelAccuracy]:
    """Return every kernel with a passing run, in the order of the targets."""
    by_target: dict[str, list[Mark]] = {}
    for mark in marks:
        by_target.setdefault(mark.target, []).append(mark)
    kernels: dict[tuple[str, str], dict[str, list[Mark]]] = {}
    for row in targets:
        if row.name in by_target:
            kernels.setdefault((row.kernel, row.op), {})[row.name] = by_target[row.name]
    return [_kernel(kernel, op, found) for (kernel, op), found in kernels.items()]


def _kernel(kernel: str, op: str, by_target: Mapping[str, Sequence[Mark]]) -> KernelAccuracy:
    marks = [mark for found in by_target.values() for mark in found]
    dtypes = sorted({mark.dtype for mark in marks}, key=lambda dtype: (-ITEMSIZE.get(dtype, 0), dtype))
    lines = [
        _target(name, dtype, of_dtype)
        for name, found in by_target.items()
        for dtype in dtypes
        if (of_dtype := [mark for mark in found if mark.dtype == dtype])
    ]
    return KernelAccuracy(kernel, op, max(mark.ratio for mark in marks), lines)


def _target(name: str, dtype: str, marks: Sequence[Mark]) -> TargetAccuracy:
    by_bin: dict[int, Mark] = {}
    for mark in marks:
        by_bin[mark.bin] = max(by_bin.get(mark.bin, mark), mark, key=lambda each: each.ratio)
    curve = sorted((float(mark.n), mark.ratio) for mark in by_bin.values())
    spark = Sparkline(f"{name}, {dtype}: err/budget by row length", curve)
    return TargetAccuracy(name, dtype, max(marks, key=lambda each: each.ratio), sum(mark.runs for mark in marks), spark)
