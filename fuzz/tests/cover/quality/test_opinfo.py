"""A few entries of torch's own list, judged: by a formula or a replay, right, wrong, or with a reason why not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fuzz.quality.__main__ import app
from fuzz.quality.asking import all_asked
from fuzz.quality.opinfo import verb
from fuzz.quality.opinfo.verb import (
    FORWARD,
    GRADIENT,
    EntryAnswer,
    all_answers,
    answers,
    deviations,
    entries,
    known,
    new_deviations,
    reasons,
    samples_of,
    shares,
    tolerances,
)
from fuzz.tasks.comparison import FORMULA, REPLAY, RIGHT, WRONG


def _answers(name: str, *dtypes: str) -> list[EntryAnswer]:
    return [*answers(entries()[name], dtypes)]


def test_a_formula_judges_all_dtypes_and_the_gradient() -> None:
    found = _answers("mul", "f32", "bf16", "f16", "f64")
    assert {(each.way, each.dtype) for each in found} == {
        (way, dtype) for way in (FORWARD, GRADIENT) for dtype in ("f32", "bf16", "f16", "f64")
    }
    assert {(each.by, each.result) for each in found} == {(FORMULA, RIGHT)}


def test_what_is_not_read_is_replayed_but_not_in_float64() -> None:
    short, long = _answers("digamma", "f32")[0], _answers("digamma", "f64")[0]
    assert (short.by, short.result) == (REPLAY, RIGHT)
    assert "aten.digamma" in short.unread
    assert (long.by, long.said) == ("", "a replay in float64 would compare it with itself")


def test_sums_that_are_kept_in_16_bits_are_wrong() -> None:
    """The sum of 300 ones by `addbmm` in bf16 is 256."""
    found = [each for each in _answers("addbmm", "bf16") if each.way == FORWARD]
    assert {each.result for each in found} == {WRONG}
    assert not new_deviations(found)
    assert deviations(found).rows[0][:2] == ("addbmm", "forward:bf16")


@pytest.mark.whole
def test_a_process_for_a_gpu_has_its_own_cuda() -> None:
    """Where there is no GPU, it says so for each sample."""
    [(name, [answer, *gradients])] = all_answers(["abs"], ("f32",), 1, 1, "cuda")
    assert (name, answer.place) == ("abs", "forward:f32:cuda")
    if not torch.cuda.is_available():
        assert "CUDA" in answer.said, answer
        assert not gradients
    else:
        assert {each.result for each in (answer, *gradients)} == {RIGHT}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("uniform", "draws at random"),
        ("new_empty_strided", "returns memory as it was"),
        ("arange", "takes no tensor"),
        ("nextafter", "depends on the dtype"),
        ("complex", "is of complex numbers"),
    ],
)
def test_what_has_no_right_result_is_told_with_the_reason(name: str, why: str) -> None:
    found = [each for each in _answers(name, "f32") if each.way == FORWARD]
    assert {each.by for each in found} == {""}
    assert all(why in each.said for each in found), found


def test_a_sample_is_a_function_of_its_tensors_alone() -> None:
    sample = samples_of(entries()["baddbmm"], "f32", 2)[-1]
    args = {name: torch.ones_like(each) for name, each in sample.tensors.items()}
    assert not torch.equal(sample.reference(**args), sample.returned())
    assert torch.equal(sample.reference(*sample.tensors.values()), sample.returned())


def test_tables_count_each_entry_once() -> None:
    right = EntryAnswer("a", FORWARD, "f32", 0, True, FORMULA, RIGHT)
    wrong = EntryAnswer("a", FORWARD, "f32", 3, True, FORMULA, WRONG, "y = 2, must be 1")
    other = EntryAnswer("b", FORWARD, "f32", 0, True, "", said="draws at random")
    assert shares([right, wrong, other]).rows[0] == (FORWARD, "any", "2", "1", "0", "1", "0", "1")
    assert deviations([right, wrong, other]).rows == [("a", "forward:f32", FORMULA, "y = 2, must be 1", "NEW")]
    assert new_deviations([right, wrong, other]) == [wrong]
    assert reasons([right, wrong, other]).rows == [("not judged", "draws at random", "1", "b")]
    assert not tolerances([right]).rows


def test_entries_are_judged_each_in_its_process(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["opinfo", "--entry", "deg2rad", "--dtype", "f16", "--json", str(tmp_path / "x")])
    assert shown.exit_code == 0, shown.output
    assert "forward" in shown.output
    assert '"deg2rad"' in (tmp_path / "x").read_text("utf-8")
    assert "no such entry" in str(CliRunner().invoke(app, ["opinfo", "--entry", "nothing"]).exception)


def test_what_ends_its_process_is_told_and_the_next_is_asked() -> None:
    def answer(name: str) -> Iterator[str]:
        yield name
        if name == "dies":
            os.kill(os.getpid(), signal.SIGKILL)

    found = {each.name: (each.found, each.ended) for each in all_asked(["a", "dies", "b"], answer, 1, 60.0)}
    assert found == {"a": (["a"], ""), "dies": (["dies"], "its process ended with -9"), "b": (["b"], "")}


def test_the_page_lists_all_that_is_known() -> None:
    page = (Path(verb.__file__).parents[2] / "docs" / "opinfo.md").read_text("utf-8")
    rows = {line for line in page.splitlines() if line.startswith("| `")}
    for place, why in known().items():
        assert any(f"`{place.split()[0]}`" in row and row.endswith(f"| {why} |") for row in rows), place
