"""Which values of each axis ran is read off the cases that were judged, and never assumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuzz
from fuzz.core.adapters.registry import expand
from fuzz.core.base.case import Layout
from fuzz.core.base.probe import AUTOGRAD, CALLER, MODE, PAUSE, PROCESS, WITH_GRADIENTS, probed
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.balanced import sized_cases
from fuzz.core.judge.judge import Judgement
from fuzz.findings.axes import AXES, text_of, told, values_of
from fuzz.findings.tally import Tally
from fuzz.tasks import further
from fuzz.tests.common.hunting import GENERIC
from fuzz.tests.common.planted import a_case


def bits(*numbers: float) -> bytes:
    return np.array(numbers, "<f4").tobytes()


def test_each_axis_says_what_a_case_is() -> None:
    found = values_of(a_case())  # three rows, 1 to 12
    assert found == {
        "magnitude of all inputs": {"2^3"}, "magnitude of one row beside others": {"2^1"}, "extents": {"n=4"},
        "elements": {"2^3"}, "rows are multiples of": {"4"}, "rows": {"3"}, "dimensions": {"2"},
        "strides": {"contiguous"}, "alignment in bytes": {"16"}, "aliasing": {"apart"},
        "how it is called": {"as usual"}, "threads": {"as the process has them"}, "dtypes": {"f32"},
        "values that repeat": {"all different"}, "order of values": {"ascending"}, "special values": {"none"},
        "place of the largest value": {"largest last"}, "signs": {"no negative"}, "time": {"at once"},
        "environment and process": {"the judge's"}, "autograd": {"no gradients"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "axis", "value"),
    [
        ([0.3] * 12, "magnitude of all inputs", "2^-2"),
        ([0.0] * 12, "magnitude of all inputs", "0"),
        ([np.nan, *[3.0] * 11], "magnitude of all inputs", "2^1"),
        ([1.0] * 4 + [2.0**40] * 8, "magnitude of one row beside others", "2^40"),
        ([2.0] * 12, "values that repeat", "all equal"),
        ([2.0, 2.0, 1.0, 5.0] * 3, "values that repeat", "some equal"),
        ([4.0, 3.0, 2.0, 1.0] * 3, "order of values", "descending"),
        ([4.0, 3.0, 5.0, 1.0] * 3, "order of values", "neither"),
        ([1.0, -0.0, *[1.0] * 10], "special values", "negative zero"),
        ([1.0, np.inf, *[1.0] * 10], "special values", "infinity"),
        ([-9.0, 3.0, 2.0, 1.0] * 3, "place of the largest value", "largest first"),
        ([1.0, 3.0, 2.0, 1.0] * 3, "place of the largest value", "largest inside"),
    ],
)
def test_values_are_read_off_the_numbers(numbers: Sequence[float], axis: str, value: str) -> None:
    assert values_of(a_case(bits=bits(*numbers)))[axis] == {value}


def test_memory_and_the_way_of_a_call_are_axes() -> None:
    assert values_of(a_case(Layout((3, 4), (7, 1))))["strides"] == {"with gaps"}
    assert values_of(a_case(Layout((3, 4), (1, 3))))["strides"] == {"transposed"}
    assert values_of(a_case(alias="x"))["aliasing"] == {"y same x"}
    assert values_of(probed(a_case(), CALLER))["how it is called"] == {"caller"}
    assert values_of(probed(a_case(), PAUSE))["time"] == {"after a pause"}
    assert values_of(probed(a_case(), PROCESS))["environment and process"] == {"as a user's"}
    ways = [values_of(probed(a_case(), AUTOGRAD, kind))["autograd"] for kind in range(4)]
    assert ways == [{each} for each in WITH_GRADIENTS]
    assert values_of(probed(a_case(), MODE))["mode"] == {"in the other one"}


def test_only_runs_that_were_judged_count_and_what_nothing_varies_is_told() -> None:
    [target, *_] = expand([GENERIC])
    tally, part = Tally(), Tally(notes_axes=True)
    for verdict in (Verdict.PASS, Verdict.NOT_RUN):
        part.count(a_case(), [Judgement(target.id, "digest", verdict)], {target.id: target})
    tally.add(part)
    tally.add(part)
    axes = told(line.axes for line in tally.targets.values())
    assert [*axes] == [*AXES]
    assert axes["rows"] == {"3": 2}
    assert axes["mode"] == {}
    assert text_of("mode", axes["mode"]) == "axis mode: not varied"
    silent = Tally()
    silent.count(a_case(), [Judgement(target.id, "digest", Verdict.PASS)], {target.id: target})
    assert silent.targets[target.id].axes == {}, "nobody asked"


def test_a_line_has_numbers_in_order_and_neighbours_as_one_range() -> None:
    seen = {
        "rows": Counter({"2^10": 1, "1": 2, "7": 1, "2^4": 1, "2^3": 1}),
        "extents": Counter({"n=2^3": 1, "k=1": 2}),
    }
    axes = told([seen])
    assert text_of("rows", axes["rows"]) == "axis rows: 1, 7, 2^3 to 2^4, 2^10"
    assert text_of("extents", axes["extents"]) == "axis extents: k=1, n=2^3"
    assert text_of("size", {"2^-2": 1, "2^-1": 1, "2^0": 3}) == "axis size: 2^-2 to 2^0"


def small_alone(x: Any) -> Any:
    """A sum that is wrong where a row of some length has small numbers alone."""
    y = x.sum(-1, dtype=np.float64).astype(np.float32)
    return y + np.float32(0.1) if x.size > 250 and 0.1 < np.abs(x).max(initial=0) < 0.45 else y


@pytest.mark.usefixtures("quick_checks")
def test_inputs_that_are_small_at_once_find_what_a_search_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def check() -> None:
        able = fuzz.Capabilities(empty=False)
        fuzz.check(small_alone, op="row_sum", capabilities=able, seed=2, max_cases=100)

    with pytest.raises(fuzz.CheckFailed):
        check()
    monkeypatch.setattr(further, "sized_cases", lambda capability, seed: [])
    check()


THREADED = """
import torch


def row_sum(x):
    return x.sum(-1) + (torch.get_num_threads() > 1)
"""


@pytest.mark.usefixtures("quick_checks")
def test_a_kernel_that_is_wrong_on_several_threads_alone_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "threaded.py").write_text(THREADED)
    able = fuzz.Capabilities(empty=False, max={"n": 400})

    def check() -> None:
        kernel = fuzz.PythonKernel("threaded", "row_sum", tmp_path / "threaded.py", "torch", capabilities=able)
        fuzz.check(kernel, targets=["*@cpu"], seed=2, max_cases=100)

    with pytest.raises(fuzz.CheckFailed):
        check()
    monkeypatch.setattr(further, "sized_cases", lambda capability, seed: [])
    check()


def test_cases_of_other_sizes_have_them_in_every_input() -> None:
    cases = sized_cases(GENERIC.capability, 1)
    assert [values_of(case)["magnitude of all inputs"] for case in cases] == [
        {f"2^{power}"} for power in (-12, -9, -7, -6, -5, -4, -3, -2, -1)
    ]
