"""Charts of the nightly page as inline SVG. Colours come from the page's style sheet, so that they follow dark mode."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

Curve = Sequence[tuple[float, float]]
"""(n, value), by ascending n."""


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    name: str
    css: str
    """class of the style sheet."""
    line: Curve
    rings: Curve = ()
    """results judged by the worst case, drawn as rings."""


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


_WIDTH, _HEIGHT = 360, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 12, 12, 36
_FLOOR = 0.01
"""smallest err/budget shown; exact results lie there."""
_TICKS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


def _element(tag: str, text: str = "", **attributes: object) -> str:
    names = "".join(f" {name.rstrip('_').replace('_', '-')}={_quoted(v)}" for name, v in attributes.items())
    return f"<{tag}{names}>{text}</{tag}>" if text else f"<{tag}{names}/>"


def _quoted(value: object) -> str:
    return quoteattr(value) if isinstance(value, str) else f'"{value}"'


def _text(x: float, y: float, words: str, css: str, anchor: str = "middle") -> str:
    return _element("text", escape(words), x=round(x, 1), y=round(y, 1), class_=css, text_anchor=anchor)


def _polyline(curve: Iterable[tuple[float, float]], x: Axis, y: Axis, css: str) -> str:
    points = " ".join(f"{x.at(n):g},{y.at(value):g}" for n, value in curve)
    return _element("polyline", points=points, class_=css)


def _svg(parts: Iterable[str], width: float, height: float, title: str, words: str, css: str) -> str:
    head = f"<title>{escape(title)}</title><desc>{escape(words)}</desc>"
    return _element("svg", head + "".join(parts), viewBox=f"0 0 {width:g} {height:g}", role="img", class_=css)


def accuracy_chart(title: str, series: Sequence[Series], worst_case: Curve) -> str:
    """err/budget against n, in units of the sqrt(n) budget, below that budget and the worst case."""
    points = [point for each in series for point in (*each.line, *each.rings)]
    lengths = [n for n, _ in points]
    longest = max(max(lengths), 2 * min(lengths), 64)
    x = Axis(min(lengths), longest, _LEFT, _WIDTH - _RIGHT)
    highest = max([2.0, *(value for _, value in points), *(value for _, value in worst_case)])
    y = Axis(_FLOOR, highest * 1.3, _HEIGHT - _BOTTOM, _TOP)
    parts = [*_grid(x, y), _line(x.start, y.at(1), x.end, y.at(1), "budget"), _polyline(worst_case, x, y, "worst")]
    parts.append(_text(x.end - 2, y.at(1) + 12, "√n budget", "label budget-label", "end"))
    if worst_case and worst_case[-1][1] > 1.7:
        parts.append(_text(x.end - 2, y.at(worst_case[-1][1]) - 5, "worst case", "label worst-label", "end"))
    for each in series:
        parts += _drawn(each, x, y)
    worst = max(value for _, value in points)
    words = (
        f"Largest err over the square-root-of-n budget for row lengths from {min(lengths):g} to {max(lengths):g}; "
        f"the highest is {worst:.3g}. Lines: {', '.join(each.name for each in series)}."
    )
    return _svg(parts, _WIDTH, _HEIGHT, title, words, "chart")


def _drawn(each: Series, x: Axis, y: Axis) -> list[str]:
    parts = []
    if len(each.line) > 1:
        parts.append(_polyline(each.line, x, y, f"line {each.css}"))
    highest = sorted(each.line, key=lambda point: point[1])[-3:]
    parts += [_dot(each, n, value, x, y, "dot") for n, value in highest]
    return parts + [_dot(each, n, value, x, y, "ring") for n, value in each.rings]


def _dot(each: Series, n: float, value: float, x: Axis, y: Axis, kind: str) -> str:
    words = f"<title>{escape(f'{each.name}: n = {n:g}, {value:.3g}')}</title>"
    return _element("circle", words, cx=x.at(n), cy=y.at(value), r=2.2, class_=f"{kind} {each.css}")


def _line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return _element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=css)


def _grid(x: Axis, y: Axis) -> Iterable[str]:
    for tick in _TICKS:
        if y.low <= tick <= y.high:
            yield _line(x.start, y.at(tick), x.end, y.at(tick), "grid")
            yield _text(x.start - 5, y.at(tick) + 3.5, f"{tick:g}", "tick", "end")
    powers = [2.0**k for k in range(0, 40, 2) if x.low <= 2.0**k <= x.high]
    for n in powers:
        yield _text(x.at(n), y.start + 14, f"{n:g}", "tick")
        yield _line(x.at(n), y.start, x.at(n), y.start + 3, "axis")
    yield _line(x.start, y.start, x.end, y.start, "axis")
    yield _text((x.start + x.end) / 2, y.start + 30, "row length n", "label")


def sparkline(title: str, curve: Curve) -> str:
    """err/budget of one target against n, on a linear scale whose top is 1."""
    width, height = 150.0, 26.0
    lengths = [n for n, _ in curve]
    x = Axis(min(lengths), max(max(lengths), 2 * min(lengths)), 2, width - 2)
    top = max(1.0, max(value for _, value in curve))
    points = " ".join(f"{x.at(n):g},{round(height - 2 - value / top * (height - 4), 1):g}" for n, value in curve)
    limit = round(height - 2 - (height - 4) / top, 1)
    parts = [_line(2, limit, width - 2, limit, "budget"), _element("polyline", points=points, class_="line c0")]
    words = f"From n = {min(lengths):g} to {max(lengths):g}; the highest is {max(v for _, v in curve):.3g}."
    return _svg(parts, width, height, title, words, "spark")


def bars(title: str, unit: str, values: Mapping[int, float]) -> str:
    """One bar per minute."""
    width, height = 720.0, 150.0
    last = max(values)
    most = max(values.values()) or 1.0
    step = (width - 60) / (last + 1)
    parts = [_line(54, height - 24, width - 6, height - 24, "axis"), _text(50, 14, f"{most:,.0f}", "tick", "end")]
    parts.append(_line(54, 10, width - 6, 10, "grid"))
    for minute, value in values.items():
        tall = value / most * (height - 34)
        words = f"<title>minute {minute}: {value:,.0f} {escape(unit)}</title>"
        place = {"x": round(54 + minute * step + 0.1 * step, 2), "y": round(height - 24 - tall, 2)}
        parts.append(_element("rect", words, **place, width=round(step * 0.8, 2), height=round(tall, 2), class_="bar"))
    for minute in sorted({0, last // 2, last}):
        parts.append(_text(54 + (minute + 0.5) * step, height - 8, f"{minute} min", "tick"))
    words = (
        f"{len(values)} minutes; at most {most:,.0f} and on average {sum(values.values()) / len(values):,.0f} {unit}."
    )
    return _svg(parts, width, height, title, words, "chart wide")
