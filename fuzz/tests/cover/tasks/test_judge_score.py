"""The score of a ruling cannot be raised but by being right more often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.base.case import Case, Layout, contiguous
from fuzz.core.base.errors import UsageError
from fuzz.core.base.probe import CALLER, probe_of, probed
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.tasks.judge import replay
from fuzz.tasks.judge.replay import AxisValue, ExamBoard, drawn, sat, values_at_other_ranks
from fuzz.tasks.judge.ruling import NOT_SAT, Exam, Said, SolutionRuling, scored
from fuzz.tests.common.planted import a_case

_TARGET = "numpy-mine@cpu"
_SHAPES = ((3, 4), (1, 4), (3, 8), (2, 3, 4), (16, 2), (4,))
_CASES = [*(a_case(contiguous(shape)) for shape in _SHAPES), a_case(Layout((3, 4), (7, 1))), probed(a_case(), CALLER)]
_NOT_PASSED = [each for each in Verdict if each is not Verdict.PASS]
_ANY = st.sampled_from([*Verdict, None])
"""A verdict, or None for a case that is not even given to the solution."""


def _exam(verdicts: Sequence[Verdict | None], cases: Sequence[Case] = _CASES) -> Exam:
    board = ExamBoard({_TARGET: "mine"})
    for case, verdict in zip(cases, verdicts, strict=True):
        board.judged(case, [] if verdict is None else [Judgement(_TARGET, case, verdict)])
    return board.exam("mine")


def _ruling(verdict: Said, exam: Exam | None, judged: int = 8) -> SolutionRuling:
    return scored(SolutionRuling("mine.py", verdict, judged, 0, {}, (), "", exam=exam))


@given(st.lists(st.tuples(_ANY, st.booleans()), min_size=len(_CASES), max_size=len(_CASES)))
def test_who_is_right_on_more_cases_never_scores_less(found: list[tuple[Verdict | None, bool]]) -> None:
    fewer = [verdict for verdict, _ in found]
    more = [Verdict.PASS if better else verdict for verdict, better in found]
    assert _ruling("wrong", _exam(fewer)).score <= _ruling("wrong", _exam(more)).score


@given(st.lists(_ANY, min_size=len(_CASES), max_size=len(_CASES)), st.sampled_from([*_NOT_PASSED, None]))
def test_it_makes_no_difference_how_a_case_is_not_passed(verdicts: list[Verdict | None], other: Verdict | None) -> None:
    """To refuse, to raise, to hang, to end the process and to return nonsense are one."""
    assert _exam(verdicts) == _exam([each if each is Verdict.PASS else other for each in verdicts])


@given(st.permutations([*zip(_CASES, [Verdict.PASS, Verdict.CRASH] * 4, strict=True)]))
def test_it_makes_no_difference_when_a_case_fails(found: list[tuple[Case, Verdict]]) -> None:
    cases, verdicts = zip(*found, strict=True)
    assert _exam(verdicts, cases) == _exam([Verdict.PASS, Verdict.CRASH] * 4)


def test_the_easy_cases_alone_are_worth_what_they_are() -> None:
    """A value of an axis counts only if all cases with it pass: the one passed case has most of its values in common
    with others, and a solution that passes all but one loses these values alone."""
    one = _exam([Verdict.PASS, *[Verdict.FAIL_NUMERIC] * (len(_CASES) - 1)])
    all_but_one = _exam([*[Verdict.PASS] * (len(_CASES) - 1), Verdict.FAIL_NUMERIC])
    assert one.share < 0.05
    assert all_but_one.failed["how it is called"] == ("caller",)
    assert 0.5 < all_but_one.share < 1.0


def test_a_target_that_fails_spoils_what_another_one_passes() -> None:
    board = ExamBoard({_TARGET: "mine", "torch-mine@cpu": "mine", "numpy-other@cpu": "other"})
    judgements = [(_TARGET, Verdict.PASS), ("torch-mine@cpu", Verdict.CRASH), ("numpy-other@cpu", Verdict.PASS)]
    board.judged(_CASES[0], [Judgement(target, _CASES[0], verdict) for target, verdict in judgements])
    assert (board.exam("mine").share, board.exam("other").share) == (0.0, 1.0)


@given(st.sampled_from(get_args(Said)), st.none() | st.builds(_exam, st.lists(_ANY, min_size=8, max_size=8)))
def test_only_a_right_solution_scores_more_than_a_half(verdict: Said, exam: Exam | None) -> None:
    found = _ruling(verdict, exam).score
    assert (found == 1.0) == (verdict == "right")
    assert found == 1.0 or 0.0 <= found <= 0.5


def test_who_refuses_inputs_scores_as_if_it_failed_there() -> None:
    lost: list[AxisValue] = [("dimensions", "3"), ("rows", "2^9")]
    board = ExamBoard({_TARGET: "mine"})
    for case in _CASES:
        board.judged(case, [Judgement(_TARGET, case, Verdict.PASS)])
    exam = board.exam("mine", lost)
    assert (exam.refuses, exam.failed) == (True, {"dimensions": ("3",), "rows": ("2^9",)})
    assert _ruling("right", exam).score == exam.share / 2 < _ruling("right", replace(exam, failed={})).score == 0.5
    assert _ruling("right", board.exam("mine", [])).score == 0.5, "it refuses what shows in no value of an axis"


def test_what_was_not_judged_scores_nothing() -> None:
    assert _ruling("undecided", NOT_SAT).score == _ruling("did not run", None, judged=0).score == 0.0


class _Uncallable:
    """An examiner of a lone solution that can no longer be called as it is declared."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit(self, _: object) -> None:
        pass

    def examined(self, *_: object) -> NoReturn:
        raise UsageError("it cannot be called by keyword")


@pytest.mark.parametrize("over", [False, True], ids=["uncallable", "out of time"])
def test_what_does_not_run_is_not_passed(
    monkeypatch: pytest.MonkeyPatch, kernel: Callable[[str, str], PythonKernel], over: bool
) -> None:
    """A solution that could end its exam by an error would be judged no further."""
    monkeypatch.setattr(replay, "Examiner", _Uncallable)
    [target] = expand([kernel("numpy", "def softmax(x): return x\n")])
    board = sat(cast("Any", None), [target], drawn(target.kernel, 7, 6), lambda: over)
    assert (board.exam("mine").cases, board.exam("mine").share) == (6, 0.0)
    assert board.exam("mine").values > 0


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], PythonKernel]:
    def made(framework: str, text: str) -> PythonKernel:
        path: Path = tmp_path_factory.mktemp("exam") / "mine.py"
        path.write_text(text)
        return PythonKernel("mine", "softmax", path, framework, laws=("overwrite", "ghost"))

    return made


def test_no_solution_has_a_say_in_its_exam(kernel: Callable[[str, str], PythonKernel]) -> None:
    """A search takes extents from the numbers in a source: an exam does not."""
    laws = ("overwrite", "ghost")
    one = drawn(kernel("numpy", "def softmax(x): return x\n"), 7, 24, laws)
    other = drawn(kernel("torch", "def softmax(x): return x[:, :4321] if x.shape[0] > 1000 else x\n"), 7, 24, laws)
    cases = [entry.case for group in one for entry in group]
    assert [each.digest for each in cases] == [entry.case.digest for group in other for entry in group]
    assert len(one) == 24 < len(cases)
    ways: Mapping[str, int] = {way: sum(probe_of(case) == way for case in cases) for way in laws}
    assert ways["overwrite"] > 0
    assert ways["ghost"] == 0, "every solution passes where nothing runs in its place"
    assert {rank for axis, rank in values_at_other_ranks(one, 2) if axis == "dimensions"} == {"1", "3", "4", "5"}
