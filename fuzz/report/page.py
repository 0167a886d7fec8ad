"""The nightly page: one HTML file that needs no network and no server. Its own script, which copies commands, is the
only one that it lets a browser run. It follows dark mode, so its style sheet gives the colours; its charts are drawn by
`page_charts.html` as SVG."""

from __future__ import annotations

import math
import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from fuzz.core.base.git import said_of
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.text import counted
from fuzz.core.generate.pairing import PairCoverage
from fuzz.explain.explanation import Counterfactual
from fuzz.findings import database_views
from fuzz.report.brief import Brief, brief_of
from fuzz.report.coverage import pair_words, pairs_words
from fuzz.report.night import (
    broken_of,
    failure_of,
    idle_reasons,
    kernel_lines_of,
    night_outcome,
    pack_option,
    partly_run,
)
from fuzz.report.outline import Failure
from fuzz.report.progress import minutes, spent
from fuzz.report.totals import bugs_words, by_reason, found_words, not_judged, remarks
from fuzz.report.use_outcome import UseOutcome
from oracles.dtypes import ITEMSIZE

_HERE = Path(__file__).parent
_ENDINGS = {
    "limit": "ran its whole time",
    "errors": "ran its whole time, and met internal errors",
    "signal": "stopped by a signal",
    "next night": "never resumed",
    "": "cut off",
}
_NAMED = 100
"""The number of pairs of conditions that never held together which are named, for each op."""
_WIDTH, _HEIGHT = 100.0, 24.0
"""The size of a trend's drawing."""
_CSS = {"fixed": "passes-now", "flaky": "not-seen"}
"""The CSS classes of statuses; other statuses are coloured like failures."""


@dataclass(frozen=True)
class BugRow:
    """One bug in all nights."""

    bug: database_views.BugHistory
    came: str
    """The commit that introduced the bug, as far as the nights tell."""

    @property
    def css(self) -> str:
        """The CSS class of the status."""
        return _CSS.get(self.bug.status, self.bug.status)


@dataclass(frozen=True)
class Moved:
    """A number that changes from night to night."""

    label: str
    values: Sequence[float]
    form: str = "{:,.3f}"

    @property
    def words(self) -> str:
        """The first value and the last one."""
        return " → ".join(self.form.format(value) for value in dict.fromkeys((self.values[0], self.values[-1])))

    @property
    def points(self) -> list[tuple[float, float]]:
        """The points of the trend's line, in the units of its drawing."""
        top, count = max(self.values) or 1.0, max(1, len(self.values) - 1)
        return [(at * _WIDTH / count, _HEIGHT - 2 - (_HEIGHT - 4) * each / top) for at, each in enumerate(self.values)]


def bugs_of(trends: database_views.Trends, folder: Path | None) -> list[BugRow]:
    """Return a row for every bug. `folder` is in the repository of the pack; None if there is no repository."""
    order = ("new", "open", "flaky", "fixed")
    known = sorted(trends.bugs, key=lambda bug: (order.index(bug.status), bug.signature))
    return [BugRow(bug, came_words(bug.bracket, folder) if bug.bracket is not None else "") for bug in known]


def came_words(bracket: database_views.Bracket, folder: Path | None) -> str:
    """Return the first bad commit, if there is one commit between the nights, or else the range of commits."""
    if not bracket.named:
        return ""
    if bracket.good == bracket.bad:
        return f"both at {bracket.bad}"
    span = f"after {bracket.good}, up to {bracket.bad}"
    told = said_of(folder, "rev-list", f"{bracket.good}..{bracket.bad}") if folder is not None else None
    count = len(told.splitlines()) if told else 0
    if count == 1:
        return bracket.bad
    return f"{span} ({count} commits)" if count else span


def moves_of(trends: database_views.Trends) -> list[Moved]:
    """Return the trends of pace, coverage, and the accuracy of each kernel that two nights or more judged."""
    nights = [past for past in trends.nights if past.judged]
    found = [Moved("judged runs a second", [past.rate for past in nights], "{:,.0f}")] if nights else []
    covered = [past.coverage for past in nights if past.coverage is not None]
    found += [Moved("coverage of the space", covered, "{:.1%}")] if covered else []
    kernels = sorted({kernel for past in nights for kernel in past.worst})
    worst = {kernel: [past.worst[kernel] for past in nights if kernel in past.worst] for kernel in kernels}
    return found + [Moved(f"{name}: worst err/budget", each) for name, each in worst.items() if len(each) > 1]


@dataclass(frozen=True)
class Kind:
    """One kind of coverage label of one op."""

    op: str
    kind: str
    visited: int
    of: int
    rarest: int
    gaps: Sequence[str]


@dataclass(frozen=True)
class Pairs:
    """The pairs of conditions of one op, and how many of them held together."""

    op: str
    held: int
    of: int
    never: Sequence[str]
    """Some of the pairs that never held together, in words."""


@dataclass(frozen=True)
class Cell:
    """One value of a counterfactual, and its result."""

    value: int | float | str
    css: str
    """The CSS class: 'good' if it passes, 'bad' if it fails, 'bad own' for the smallest case itself."""


@dataclass(frozen=True)
class Card:
    """One bug: its first lines, the extents with which it fails, and its failing elements."""

    bucket: database_views.BucketTotals
    bug: Failure
    brief: Brief
    subject: str
    """The dimension of the cells: the first that was tried; '' if none was."""
    cells: Sequence[Cell]
    elements: Sequence[tuple[float, float]]
    """The failing elements of the smallest case's output, as runs: where each begins, and its length, in percent."""

    @property
    def all_fail(self) -> bool:
        """Whether every element of the smallest case's output fails."""
        return sum(length for _, length in self.elements) > 100 - 1e-6

    @classmethod
    def of(cls, bucket: database_views.BucketTotals, bug: Failure) -> Card:
        """Return the card of a bug."""
        told = bucket.told
        values = ((each, (each.own, *each.passing, *each.failing)) for each in told.counterfactuals)
        sizes = [each for each, some in values if all(isinstance(value, int) for value in some)]
        tried = next(iter(sorted(sizes, key=lambda each: not each.passing)), None)
        worst = told.worst
        runs = worst.bad if worst is not None and worst.of else ()
        elements = [(100 * at / worst.of, 100 * count / worst.of) for at, count in runs] if worst is not None else []
        return cls(bucket, bug, brief_of(told), tried.subject if tried else "", _cells(tried), elements)


def _cells(tried: Counterfactual | None) -> list[Cell]:
    """Return a cell for each value, in order, with the smallest case's own value."""
    if tried is None:
        return []
    cells = [Cell(tried.own, "bad own"), *(Cell(value, "good") for value in tried.passing)]
    cells += [Cell(value, "bad") for value in tried.failing]
    return sorted(cells, key=lambda cell: float(cell.value))


NO_PAIRS: Mapping[str, PairCoverage] = MappingProxyType({})


def page(
    seen: database_views.NightView,
    pairs: Mapping[str, PairCoverage] = NO_PAIRS,
    kernels: Iterable[Kernel] = (),
    folder: Path | None = None,
    outcome: UseOutcome | None = None,
) -> str:
    """Return the page of one night. `kernels` give the sources and their changes. The commits of nights belong to the
    repository around `folder`, the folder of the pack."""
    outcome, known = outcome or night_outcome(seen), {kernel.name: kernel for kernel in kernels}
    coverage = _coverage(seen.coverage)
    pace = {row.minute: float(row.judged) for row in seen.pace}
    night, script = seen.night, (_HERE / "page.js").read_text(encoding="utf-8")
    facts = {
        "style": (_HERE / "page.css").read_text(encoding="utf-8"),
        "script": script,
        "allowed": f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}",
        "seen": seen,
        "night": night,
        "verdict": _verdict(seen, outcome),
        "remarks": [*remarks(outcome), *not_judged(outcome)],
        "ending": _ENDINGS.get(night.ended, night.ended),
        "spent": spent(night.used_s, night.limit_s),
        "rate": seen.judged / night.used_s if night.used_s else 0.0,
        "lines": kernel_lines_of(seen),
        "idle": by_reason(idle_reasons(seen)),
        "partly": by_reason(partly_run(seen)),
        "broken": broken_of(seen),
        "ran": sum(1 for row in seen.targets if row.judged),
        "accuracy": accuracy_of(seen.targets, seen.accuracy),
        "coverage": coverage,
        "gaps": sum(len(kind.gaps) for kind in coverage),
        "paired": pairs_words(pairs),
        "pairs": [
            Pairs(op, of.allowed - len(of.never), of.allowed, [pair_words(op, pair) for pair in of.never[:_NAMED]])
            for op, of in pairs.items()
            if of.allowed
        ],
        "pace": Bars("Judged runs per minute of the night", "judged runs", pace) if pace else None,
        "pack": f" {shlex.join(pack)}" if (pack := pack_option(night.command)) else "",
        "bugs": [Card.of(bucket, failure_of(bucket, seen, known)) for bucket in seen.buckets],
        "bug_histories": bugs_of(seen.trends, folder),
        "moves": moves_of(seen.trends),
        "killed": sum(1 for session in seen.sessions if session.ended == ""),
    }
    return template("page.html").render(facts)


def template(name: str) -> Template:
    """Return a template of the page, which escapes all text that is inserted."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"minutes": minutes, "counted": counted, "thousands": "{:,.0f}".format}
    return environment.get_template(name)


def _verdict(seen: database_views.NightView, outcome: UseOutcome) -> tuple[str, str]:
    """Return the CSS class and the words of the banner; only a night that passed is green."""
    failing = [(bucket.row.kernel, bucket.told.explained != "not yet") for bucket in seen.failing]
    broken = len({each.kernel for each in broken_of(seen)})
    found = [bugs_words(failing)] if failing else []
    found += [f"{counted(broken, 'kernel')} broken"] if broken else []
    if found:
        return "bad", ", ".join(found)
    return "good" if outcome.passed else "idle", found_words(outcome, "").capitalize()


def _natural(value: str) -> tuple[bool, int, str]:
    """Return a sort key that puts numbers first, by their size, and then words."""
    number = value.isdecimal()
    return not number, int(value) if number else 0, value


def _coverage(rows: Sequence[database_views.LabelTotals]) -> list[Kind]:
    """Return the kinds of labels, those with coverage gaps first."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        if row.wanted:
            counts.setdefault((row.op, row.kind), Counter())[row.value] = row.visits
    found = [
        Kind(
            op, kind, sum(1 for count in values.values() if count), len(values), min(values.values()),
            sorted((value for value, count in values.items() if count == 0), key=_natural),
        )
        for (op, kind), values in counts.items()
    ]  # fmt: skip
    return sorted(found, key=lambda kind: (kind.op, not kind.gaps))


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
    worst: database_views.Mark
    runs: int
    spark: Sparkline


@dataclass(frozen=True)
class KernelAccuracy:
    """One kernel with the lines of its targets."""

    kernel: str
    op: str
    worst: float
    targets: Sequence[TargetAccuracy]


def accuracy_of(
    targets: Sequence[database_views.TargetTotals], marks: Sequence[database_views.Mark]
) -> list[KernelAccuracy]:
    """Return every kernel with a passing run, in the order of the targets."""
    by_target: dict[str, list[database_views.Mark]] = {}
    for mark in marks:
        by_target.setdefault(mark.target, []).append(mark)
    kernels: dict[tuple[str, str], dict[str, list[database_views.Mark]]] = {}
    for row in targets:
        if row.name in by_target:
            kernels.setdefault((row.kernel, row.op), {})[row.name] = by_target[row.name]
    return [_kernel(kernel, op, found) for (kernel, op), found in kernels.items()]


def _kernel(kernel: str, op: str, by_target: Mapping[str, Sequence[database_views.Mark]]) -> KernelAccuracy:
    marks = [mark for found in by_target.values() for mark in found]
    dtypes = sorted({mark.dtype for mark in marks}, key=lambda dtype: (-ITEMSIZE.get(dtype, 0), dtype))
    lines = [
        _target(name, dtype, of_dtype)
        for name, found in by_target.items()
        for dtype in dtypes
        if (of_dtype := [mark for mark in found if mark.dtype == dtype])
    ]
    return KernelAccuracy(kernel, op, max(mark.ratio for mark in marks), lines)


def _target(name: str, dtype: str, marks: Sequence[database_views.Mark]) -> TargetAccuracy:
    by_bin: dict[int, database_views.Mark] = {}
    for mark in marks:
        by_bin[mark.bin] = max(by_bin.get(mark.bin, mark), mark, key=lambda each: each.ratio)
    curve = sorted((float(mark.n), mark.ratio) for mark in by_bin.values())
    spark = Sparkline(f"{name}, {dtype}: err/budget by row length", curve)
    return TargetAccuracy(name, dtype, max(marks, key=lambda each: each.ratio), sum(mark.runs for mark in marks), spark)
