"""A task whose tensors are too large for a whole replay is judged at its full size by some of its rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.bugs import full_size_told
from fuzz.tasks.judge.full import SizeLimits, at_full_size
from fuzz.tasks.judge.own import own_statement
from fuzz.tasks.judge.ruling import FullSize, OwnShapes, SolutionRuling
from fuzz.tasks.readers.solution import solutions_of

_TASK = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        y = {}
        return y


batch_size = 6000


def get_inputs():
    return [torch.rand(batch_size, 16)]
"""
_ROWS = "x / x.sum(-1, keepdim=True)"
_LIMITS = SizeLimits(elements=1 << 18, compared=1 << 10)
_SMALLER = OwnShapes({}, "batch_size = 2", "right", 1, 0, (), "")
_RIGHT = SolutionRuling("mine.py", "right", 4, 0, {}, (), "", own_shapes=_SMALLER)


def _full(folder: Path, reference: str, *ends: str, limits: SizeLimits = _LIMITS, task: str = _TASK) -> list[FullSize]:
    """What is said at full size of solutions that are right but for what they do at the end."""
    (folder / "task.py").write_text(task.format(reference))
    names = [f"mine{at}.py" for at, _ in enumerate(ends)]
    for name, end in zip(names, ends, strict=True):
        text = task.format(reference).replace("class Model(", "class ModelNew(")
        (folder / name).write_text(text.replace("return y", f"{end}\n        return y"))
    against, files = str(folder / "task.py"), tuple(str(folder / name) for name in names)
    asked = Asked(files, against, None, "finite", 1, 8, 8, folder / "judged", False, (), None, None)
    problem = replace(own_statement(against), own=None)
    found = at_full_size(asked, problem, solutions_of(files, problem, against), [_RIGHT] * len(ends), 7, limits)
    assert [each.verdict for each in found] == [
        "wrong" if each.full_size is not None and each.full_size.verdict == "wrong" else "right" for each in found
    ]
    return [each.full_size for each in found if each.full_size is not None]


def test_who_is_wrong_only_in_a_large_batch_or_only_in_its_last_row_is_wrong(tmp_path: Path) -> None:
    last, many = "y[-1] += x.shape[0] > 4096", "y = y + (x.numel() > 1 << 16)"
    right, at_last, at_many = _full(tmp_path, _ROWS, "", last, many)
    assert (right.verdict, right.judged, right.elements, right.shapes) == ("right", 1024, 96000, {"x": (6000, 16)})
    assert full_size_told(right) == [
        "  right at the task's own shapes (x 6000x16): 1,024 of 96,000 elements judged, by replay"
    ]
    assert (at_last.verdict, at_many.verdict) == ("wrong", "wrong")
    assert "y[5999, " in at_last.failure, "the place is that of the whole output"
    assert "16 of 1,024 elements are wrong" in at_last.failure
    assert "1,024 of 1,024 elements are wrong" in at_many.failure


@pytest.mark.parametrize("reference", ["x / x.sum()", "x - x.mean(0)", "x.sum(0)", "x.sum(-1).flip(0)"])
def test_rows_that_hang_together_are_not_judged(tmp_path: Path, reference: str) -> None:
    [full] = _full(tmp_path, reference, "")
    assert (full.verdict, full.judged) == ("did not run", 0)
    assert full.reason.startswith("its rows hang together: ")


@pytest.mark.some(1)
@pytest.mark.parametrize("reference", ["x * torch.arange(x.shape[0])[:, None]", "x.sum(-1).cumsum(0)"])
def test_first_rows_are_compared_where_a_row_knows_its_place(tmp_path: Path, reference: str) -> None:
    right, wrong = _full(tmp_path, reference, "", "y = y * (1.0 + (x.shape[0] > 4096))")
    assert (right.verdict, wrong.verdict) == ("right", "wrong")


def test_a_triangle_of_a_product_is_judged_by_the_first_rows_of_the_first_matrix(tmp_path: Path) -> None:
    task = _TASK.replace("batch_size = 6000\n", "").replace("batch_size, 16)", "48, 48), torch.rand(48, 48)")
    task = task.replace("self, x", "self, x, w")
    right, wrong = _full(tmp_path, "torch.triu(x @ w)", "", "y[3, 4] += 1", task=task, limits=SizeLimits(compared=480))
    assert (right.verdict, right.judged, right.elements) == ("right", 480, 2304)
    assert (wrong.verdict, "y[3, 4]" in wrong.failure) == ("wrong", True)


@pytest.mark.whole
def test_a_batch_without_a_name_is_the_first_dimension_and_a_matrix_as_long_is_not_cut(tmp_path: Path) -> None:
    task = _TASK.replace("batch_size = 6000\n", "").replace("batch_size, 16)", "48, 48), torch.rand(48, 48)")
    task = task.replace("self, x", "self, x, w")
    right, wrong = _full(tmp_path, "x @ w", "", "y[-1, -1] += 1", task=task, limits=SizeLimits(compared=480))
    assert (right.verdict, right.judged, right.elements) == ("right", 480, 2304)
    assert (wrong.verdict, "y[47, 47]" in wrong.failure) == ("wrong", True)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (SizeLimits(elements=96001), "its tensors have 192,000 elements, and more than 96,001 take too long"),
        (SizeLimits(row=15), "one of its rows has 16 elements, and more than 15 take too long"),
    ],
)
def test_what_does_not_fit_says_why(tmp_path: Path, limits: SizeLimits, words: str) -> None:
    [full] = _full(tmp_path, _ROWS, "", limits=limits)
    [line] = full_size_told(full)
    assert line.endswith(f": {words}")


@pytest.mark.whole
def test_of_large_rows_the_last_one_alone_is_compared(tmp_path: Path) -> None:
    right, wrong = _full(tmp_path, _ROWS, "", "y[-1] += x.shape[0] > 4096", limits=SizeLimits(compared=15))
    assert (right.verdict, right.judged, wrong.verdict) == ("right", 16, "wrong")
    assert "y[5999, " in wrong.failure


def test_who_raises_there_is_wrong_but_not_for_too_little_memory(tmp_path: Path) -> None:
    raises, lacks = "assert x.shape[0] < 4096", 'raise RuntimeError("can\'t allocate memory")'
    wrong, untried = _full(tmp_path, _ROWS, raises, lacks)
    assert (wrong.verdict, "AssertionError" in wrong.failure) == ("wrong", True)
    assert (untried.verdict, "can't allocate memory" in untried.reason) == ("did not run", True)


def test_who_changes_the_process_there_is_wrong(tmp_path: Path) -> None:
    """The values that it returns are right."""
    [full] = _full(tmp_path, _ROWS, "torch.set_flush_denormal(x.shape[0] > 4096)")
    assert full.verdict == "wrong"
    assert full.failure


def test_whose_call_takes_too_long_counts_as_not_tried_and_not_as_wrong(tmp_path: Path) -> None:
    sleeps = "__import__('time').sleep(60.0 * (x.shape[0] > 4096))"
    [full] = _full(tmp_path, _ROWS, sleeps, limits=replace(_LIMITS, seconds=1.0))
    assert (full.verdict, full.judged) == ("did not run", 0)
    assert full.reason.startswith("no answer within 1 s")
