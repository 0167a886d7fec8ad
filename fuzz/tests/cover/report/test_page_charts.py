"""Charts of the nightly page: text stays text, colours stay in the style sheet, and points lie where they belong."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fuzz.findings.database_views import Mark, TargetTotals
from fuzz.report.page import template
from fuzz.report.page_charts import AccuracyChart, Bars, KernelAccuracy, Sparkline, accuracy_of

_HOSTILE = "c-<script>&\"'@native:<b>=1,gcc-O2"
_CURVE = ((1.0, 0.0), (64.0, 0.5), (4096.0, 3.0))


def _mark(bin_: int, ratio: float, worst_case: bool = False, target: str = _HOSTILE) -> Mark:
    return Mark(target, "f32", bin_, worst_case, 2 ** (bin_ // 4), ratio, 2.0, "3x4 <normal>", 5)


def _accuracy(marks: list[Mark]) -> KernelAccuracy:
    names = dict.fromkeys(mark.target for mark in marks)
    targets = [TargetTotals(name, "<k>", "rms_norm", True, "", {}, 1, 0, 0, 0) for name in names]
    [found] = accuracy_of(targets, marks)
    return found


def _drawn(macro: str, chart: AccuracyChart | Sparkline | Bars) -> ET.Element:
    charts: Any = template("page_charts.html").module
    return ET.fromstring(str(getattr(charts, macro)(chart)))


_EVERY = [
    ("accuracy", _accuracy([_mark(0, 0.1), _mark(24, 0.9), _mark(24, 0.5, True)]).charts["f32"]),
    ("sparkline", Sparkline(_HOSTILE, _CURVE)),
    ("bars", Bars(_HOSTILE, "<runs>", {0: 3.0, 5: 0.0})),
]


@pytest.mark.parametrize(("macro", "chart"), _EVERY, ids=[macro for macro, _ in _EVERY])
def test_names_are_text_and_colours_are_the_style_sheets(macro: str, chart: Any) -> None:
    svg = _drawn(macro, chart)
    assert svg.findtext("title") == chart.title
    assert "<" in chart.title
    assert svg.findtext("desc") == chart.words
    for element in svg.iter():
        assert element.tag in {"svg", "title", "desc", "line", "polyline", "text", "circle", "rect"}
        assert not {"style", "fill", "stroke", "href"} & set(element.attrib)


def test_points_lie_within_the_chart_and_what_is_exact_on_its_floor() -> None:
    chart = _accuracy([_mark(0, 0.0), _mark(24, 2.5), _mark(40, 1e9), _mark(44, 0.5, True)]).charts["f32"]
    assert chart.at(1.0, 0.0) == (chart.x.start, chart.y.start)
    for n, value in chart.points:
        x, y = chart.at(n, value)
        assert chart.x.start <= x <= chart.x.end
        assert chart.y.end <= y <= chart.y.start
    circles = _drawn("accuracy", chart).findall("circle")
    assert [circle.attrib["class"].split()[0] for circle in circles] == ["dot", "dot", "dot", "ring"]
    assert [circle.findtext("title") for circle in circles][-1] == "native <b>=1: n = 2048, 1"


def test_targets_that_differ_in_their_compiler_alone_share_a_line() -> None:
    places = ("native:vl=1,gcc-O0", "native:vl=1,gcc-O2", "qemu:vl=1,gcc-O2")
    found = _accuracy([_mark(bin_, 0.1 + number, target=f"c-k@{place}") for number, place in enumerate(places)
                       for bin_ in (0, 3, 24)])  # fmt: skip
    chart = found.charts["f32"]
    assert [plot.name for plot in chart.plots] == ["native vl=1", "qemu vl=1"]
    assert chart.plots[0].line == [(1.0, 1.1), (64.0, 1.1)], "the worst of each octave, over both"
    assert [line.name for line in found.targets] == [f"c-k@{place}" for place in places]
    assert found.worst == 2.1
