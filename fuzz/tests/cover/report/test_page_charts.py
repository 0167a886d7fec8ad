"""Charts of the nightly page: text stays text, colours stay in the style sheet, and points lie where they belong."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fuzz.findings.database_views import Mark, TargetTotals
from fuzz.report.page import Bars, Sparkline, accuracy_of, template

_HOSTILE = "c-<script>&\"'@native:<b>=1,gcc-O2"
_CURVE = ((1.0, 0.0), (64.0, 0.5), (4096.0, 3.0))


def _mark(bin_: int, ratio: float, worst_case: bool = False, target: str = _HOSTILE) -> Mark:
    return Mark(target, "f32", bin_, worst_case, 2 ** (bin_ // 4), ratio, 2.0, "3x4 <normal>", 5)


def _drawn(macro: str, chart: Sparkline | Bars) -> ET.Element:
    charts: Any = template("page_charts.html").module
    return ET.fromstring(str(getattr(charts, macro)(chart)))


_EVERY = [
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
    chart = Sparkline("", [(1.0, 0.0), (64.0, 2.5), (1024.0, 1e9)])
    assert chart.at(1.0, 0.0) == (2.0, chart.height - 2)
    for n, value in chart.curve:
        x, y = chart.at(n, value)
        assert 2 <= x <= chart.width - 2
        assert 2 <= y <= chart.height - 2


def test_a_line_is_the_worst_of_each_length_of_one_target_and_dtype() -> None:
    places = ("native:gcc-O0", "native:gcc-O2")
    marks = [_mark(at, 0.1 + number, False, f"c-k@{name}") for number, name in enumerate(places) for at in (0, 24)]
    targets = [TargetTotals(f"c-k@{place}", "<k>", "rms_norm", True, "", {}, 1, 0, 0, 0) for place in places]
    [found] = accuracy_of(targets, [*marks, _mark(24, 0.7, True, "c-k@native:gcc-O0")])
    assert [line.name for line in found.targets] == [f"c-k@{place}" for place in places]
    assert [line.spark.curve for line in found.targets] == [[(1.0, 0.1), (64.0, 0.7)], [(1.0, 1.1), (64.0, 1.1)]]
    assert found.worst == 1.1
