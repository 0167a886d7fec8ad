"""The accuracy section of the nightly page: which lines each chart has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fuzz.base.case import ITEMSIZE
from fuzz.findings.accuracy import BINS_PER_OCTAVE
from fuzz.findings.database_views import Mark, TargetTotals
from fuzz.report.page_charts import Curve, Series, accuracy_chart, sparkline

_COLOURS = 8


@dataclass(frozen=True)
class TargetAccuracy:
    """One target's line in the table of a kernel."""

    name: str
    dtype: str
    ratio: str
    where: str
    runs: int
    spark: str


@dataclass(frozen=True)
class Panel:
    """One chart with its legend."""

    dtype: str
    chart: str
    legend: Sequence[tuple[str, str]]
    """css class and name."""


@dataclass(frozen=True)
class KernelAccuracy:
    """All charts of one kernel."""

    kernel: str
    op: str
    worst: str
    panels: Sequence[Panel]
    targets: Sequence[TargetAccuracy]


def kernels(targets: Sequence[TargetTotals], points: Sequence[Mark]) -> list[KernelAccuracy]:
    """Every kernel with a passing run, in the order of the targets."""
    by_target: dict[str, list[Mark]] = {}
    for point in points:
        by_target.setdefault(point.target, []).append(point)
    found = []
    for kernel, op in dict.fromkeys((row.kernel, row.op) for row in targets):
        names = [row.name for row in targets if (row.kernel, row.op) == (kernel, op) and row.name in by_target]
        if names:
            found.append(_kernel(kernel, op, {name: by_target[name] for name in names}))
    return found


def _kernel(kernel: str, op: str, points: dict[str, list[Mark]]) -> KernelAccuracy:
    everything = [point for rows in points.values() for point in rows]
    dtypes = sorted({point.dtype for point in everything}, key=lambda dtype: (-ITEMSIZE.get(dtype, 0), dtype))
    panels = [_panel(kernel, dtype, points) for dtype in dtypes]
    lines = [
        _target(name, dtype, [point for point in rows if point.dtype == dtype])
        for name, rows in points.items()
        for dtype in dtypes
        if any(point.dtype == dtype for point in rows)
    ]
    return KernelAccuracy(kernel, op, f"{max(point.ratio for point in everything):.3f}", panels, lines)


def _panel(kernel: str, dtype: str, points: dict[str, list[Mark]]) -> Panel:
    """Targets that differ only in compiler and optimisation share a line: the table tells them apart."""
    places: dict[str, list[Mark]] = {}
    for name, rows in points.items():
        places.setdefault(_place(name), []).extend(point for point in rows if point.dtype == dtype)
    series = [
        Series(name, f"c{number % _COLOURS}", _highest(rows, worst_case=False), _highest(rows, worst_case=True))
        for number, (name, rows) in enumerate((name, rows) for name, rows in places.items() if rows)
    ]
    # Where only the worst case judges, rings alone would hide how the error grows.
    series = [each if each.line else Series(each.name, each.css, each.rings) for each in series]
    legend = [(each.css, each.name) for each in series]
    climbs = _lowest_climb(point for rows in places.values() for point in rows)
    return Panel(dtype, accuracy_chart(f"{kernel}, {dtype}: err/budget by row length", series, climbs), legend)


def _place(target: str) -> str:
    """'qemu vl=128' of c-sve@qemu:vl=128,gcc-O0."""
    where, _, details = target.split("@", 1)[1].partition(":")
    return " ".join([where, *(part for part in details.split(",") if "=" in part)])


def _highest(points: Iterable[Mark], worst_case: bool) -> Curve:
    """The worst of each octave, in units of the sqrt(n) budget."""
    worst: dict[int, tuple[float, float]] = {}
    for point in points:
        value = point.ratio * (point.climb if point.worst_case else 1.0)
        octave = point.bin // BINS_PER_OCTAVE
        if point.worst_case == worst_case and value >= worst.get(octave, (0.0, -1.0))[1]:
            worst[octave] = (float(point.n), value)
    return sorted(worst.values())


def _lowest_climb(points: Iterable[Mark]) -> Curve:
    """The strictest worst case of the targets in a chart, by n."""
    lowest: dict[int, tuple[float, float]] = {}
    for point in points:
        if point.bin not in lowest or point.climb < lowest[point.bin][1]:
            lowest[point.bin] = (float(point.n), point.climb)
    return sorted(lowest.values())


def _target(name: str, dtype: str, points: Sequence[Mark]) -> TargetAccuracy:
    worst = max(points, key=lambda point: point.ratio)
    by_bin: dict[int, Mark] = {}
    for point in points:
        if point.bin not in by_bin or point.ratio > by_bin[point.bin].ratio:
            by_bin[point.bin] = point
    curve = sorted((float(point.n), point.ratio) for point in by_bin.values())
    spark = sparkline(f"{name}, {dtype}: err/budget by row length", curve)
    return TargetAccuracy(name, dtype, f"{worst.ratio:.3f}", worst.where, sum(p.runs for p in points), spark)
