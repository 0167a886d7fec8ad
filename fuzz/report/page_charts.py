"""The nightly page's charts: which lines each has, and where everything lies. `page_charts.html` draws them as SVG.

The page is one file without scripts that follows dark mode, so colours come from its style sheet. No chart library fits
that: matplotlib takes a third of a second for a chart and fixes its colours, pygal adds a script to each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fuzz.adapters.target import TargetId
from fuzz.findings.database_views import Mark, TargetTotals
from fuzz.findings.tally import BINS_PER_OCTAVE
from oracles.dtypes import ITEMSIZE

Curve = Sequence[tuple[float, float]]
"""Points (n, value), by ascending n."""

_COLOURS = 8
"""Colours of lines in the style sheet, c0 to c7. Two places share one where a kernel runs at more."""
_WIDTH, _HEIGHT = 360, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 12, 12, 36
"""Pixels of an accuracy chart, three of which stand next to each other on the page, and the margins for its labels."""
_FLOOR = 0.01
"""The smallest err/budget that is shown. Exact results lie there."""
_TICKS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
_LEAST_SPAN = 64
"""The axis goes up to this n at least: one row length alone would leave it without any extent."""
_SEPARATE = 1.7
"""Where the worst case ends below this many sqrt(n) budgets, its label would lie on that of the budget."""
_NAMED_DOTS = 3
"""The number of highest points of a line that get a dot with a name: more would hide the line."""


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from data to pixels."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value lies; what is outside lies on the edge."""
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)


@dataclass(frozen=True)
class PlacePlot:
    """What one chart shows of one place where a kernel runs."""

    name: str
    css: str
    """The class of the style sheet that colours it."""
    line: Curve
    rings: Curve = ()
    """Results that the worst case bounds, drawn as rings."""

    def dots(self) -> Iterator[tuple[str, float, float]]:
        """Points that can be pointed at: their kind, n and value."""
        highest = sorted(self.line, key=lambda point: point[1])[-_NAMED_DOTS:]
        yield from (("dot", n, value) for n, value in highest)
        yield from (("ring", n, value) for n, value in self.rings)


@dataclass(frozen=True)
class AccuracyChart:
    """A chart of err/budget against n, in units of the sqrt(n) budget, with that budget and the worst case."""

    title: str
    plots: Sequence[PlacePlot]
    worst_case: Curve
    width: float = _WIDTH
    height: float = _HEIGHT

    @property
    def points(self) -> list[tuple[float, float]]:
        return [point for plot in self.plots for point in (*plot.line, *plot.rings)]

    @cached_property
    def x(self) -> Axis:
        lengths = [n for n, _ in self.points]
        longest = max(max(lengths), 2 * min(lengths), _LEAST_SPAN)
        return Axis(min(lengths), longest, _LEFT, _WIDTH - _RIGHT)

    @cached_property
    def y(self) -> Axis:
        highest = max([2.0, *(value for _, value in (*self.points, *self.worst_case))])
        return Axis(_FLOOR, highest * 1.3, _HEIGHT - _BOTTOM, _TOP)

    def at(self, n: float, value: float) -> tuple[float, float]:
        """Where a point lies."""
        return self.x.at(n), self.y.at(value)

    @property
    def ticks(self) -> list[float]:
        return [tick for tick in _TICKS if self.y.low <= tick <= self.y.high]

    @property
    def powers(self) -> list[float]:
        """Row lengths that are named: every other power of two."""
        return [2.0**k for k in range(0, 40, 2) if self.x.low <= 2.0**k <= self.x.high]

    @property
    def climb(self) -> float | None:
        """Where the curve of the worst case ends, if its label has room there."""
        return self.worst_case[-1][1] if self.worst_case and self.worst_case[-1][1] > _SEPARATE else None

    @property
    def words(self) -> str:
        lengths, worst = [n for n, _ in self.points], max(value for _, value in self.points)
        return (
            f"Largest err over the square-root-of-n budget for row lengths from {min(lengths):g} to {max(lengths):g}; "
            f"the highest is {worst:.3g}. Lines: {', '.join(plot.name for plot in self.plots)}."
        )


@dataclass(frozen=True)
class Sparkline:
    """A small chart of err/budget of one target against n, on a linear scale whose top is 1."""

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
        """Where a point lies."""
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
        """Minutes that are named below the axis."""
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
    """One target's line in the table of a kernel."""

    name: str
    dtype: str
    worst: Mark
    runs: int
    spark: Sparkline


@dataclass(frozen=True)
class KernelAccuracy:
    """All charts of one kernel, by dtype, and its targets."""

    kernel: str
    op: str
    worst: float
    charts: Mapping[str, AccuracyChart]
    targets: Sequence[TargetAccuracy]


def accuracy_of(targets: Sequence[TargetTotals], marks: Sequence[Mark]) -> list[KernelAccuracy]:
    """Every kernel with a passing run, in the order of the targets."""
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
    charts = {dtype: _chart(kernel, dtype, by_target) for dtype in dtypes}
    lines = [
        _target(name, dtype, of_dtype)
        for name, found in by_target.items()
        for dtype in dtypes
        if (of_dtype := [mark for mark in found if mark.dtype == dtype])
    ]
    return KernelAccuracy(kernel, op, max(mark.ratio for mark in marks), charts, lines)


def _chart(kernel: str, dtype: str, by_target: Mapping[str, Sequence[Mark]]) -> AccuracyChart:
    """Targets that differ only in compiler and optimisation share a line: the table tells them apart."""
    places: dict[str, list[Mark]] = {}
    for name, found in by_target.items():
        places.setdefault(_place(name), []).extend(mark for mark in found if mark.dtype == dtype)
    plots = [
        _plot(name, f"c{number % _COLOURS}", found)
        for number, (name, found) in enumerate((name, found) for name, found in places.items() if found)
    ]
    lowest: dict[int, tuple[float, float]] = {}
    for mark in (mark for found in places.values() for mark in found):
        point = (float(mark.n), mark.climb)
        lowest[mark.bin] = min(lowest.get(mark.bin, point), point, key=_value)
    return AccuracyChart(f"{kernel}, {dtype}: err/budget by row length", plots, sorted(lowest.values()))


def _place(target: str) -> str:
    """'qemu vl=128' of c-sve@qemu:vl=128,gcc-O0."""
    parsed = TargetId.parse(target)
    return " ".join([parsed.place, *parsed.set_there])


def _plot(name: str, css: str, marks: Sequence[Mark]) -> PlacePlot:
    line, rings = _highest(marks, worst_case=False), _highest(marks, worst_case=True)
    # Where only the worst case judges, rings alone would hide how the error grows.
    return PlacePlot(name, css, line, rings) if line else PlacePlot(name, css, rings)


def _highest(marks: Iterable[Mark], worst_case: bool) -> Curve:
    """The worst of each octave, in units of the sqrt(n) budget."""
    worst: dict[int, tuple[float, float]] = {}
    for mark in (mark for mark in marks if mark.worst_case == worst_case):
        octave, point = mark.bin // BINS_PER_OCTAVE, (float(mark.n), mark.ratio * (mark.climb if worst_case else 1.0))
        worst[octave] = max(point, worst.get(octave, point), key=_value)
    return sorted(worst.values())


def _value(point: tuple[float, float]) -> float:
    return point[1]


def _target(name: str, dtype: str, marks: Sequence[Mark]) -> TargetAccuracy:
    by_bin: dict[int, Mark] = {}
    for mark in marks:
        by_bin[mark.bin] = max(by_bin.get(mark.bin, mark), mark, key=lambda each: each.ratio)
    curve = sorted((float(mark.n), mark.ratio) for mark in by_bin.values())
    spark = Sparkline(f"{name}, {dtype}: err/budget by row length", curve)
    return TargetAccuracy(name, dtype, max(marks, key=lambda each: each.ratio), sum(mark.runs for mark in marks), spark)
