"""Shrinking ends at the fewest rows and the smallest n that fail, with the plainest values, and never barely fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.layouts import lay_out
from fuzz.explain.causes import Pile
from fuzz.explain.diagnosis import TimeAllowance, diagnose
from fuzz.explain.finding import Finding
from fuzz.explain.shrink.reduction import Choices
from fuzz.explain.shrink.shrink import shrink
from fuzz.explain.trial.trial import CLEAR, Family, Trials
from fuzz.tests.common.hunting import TAIL_63, failing, failures, given_case, mutant, target_of, with_edits
from oracles.truth import Truth


def _shrunk(kernel_edits: tuple[tuple[str, str], ...], found: Case) -> tuple[Case, Trials]:
    target = target_of(with_edits(*kernel_edits), "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, found)
        trials = Trials(pool, target, Family.of(judgement))
        return shrink(trials, case), trials


def _is_plain(case: Case) -> bool:
    layouts = [t.layout for t in case.inputs.values()] + [t.layout for t in case.outputs.values()]
    return all(layout == contiguous(layout.shape, "before") for layout in layouts)


@pytest.mark.some(1)
@pytest.mark.parametrize("shape", [(2, 2, 2, 2, 63), (3, 1087), (127,)])
def test_a_dropped_tail_shrinks_to_one_plain_row_of_63(shape: tuple[int, ...]) -> None:
    layout = "padded" if len(shape) == 5 else "pitched"
    case, trials = _shrunk((TAIL_63,), given_case(shape, len(shape) - 1, layout))
    assert case.inputs["x"].layout.shape == (1, 63)
    assert set(np.frombuffer(case.inputs["x"].bits, "<f4").tolist()) == {1.0}
    assert _is_plain(case)
    judgement = trials.judge([case])[0]
    assert judgement is not None
    assert judgement.ratio >= CLEAR


def test_a_hypothesis_that_cannot_be_given_examples_leaves_the_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """How it packs examples is no public interface."""
    monkeypatch.delattr("hypothesis.database.choices_to_bytes")
    case, _ = _shrunk((TAIL_63,), given_case((3, 1087), 1, "pitched"))
    assert case.inputs["x"].layout.shape == (1, 63)


def test_a_failure_of_later_rows_keeps_two_rows() -> None:
    edit = ("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * scale;\n    scale = 1.5f;")
    head = ("static void generic_row(", "static float scale;\n\nstatic void generic_row(")
    entry = ("{ return each_row(", "{\n    scale = 1.0f;\n    return each_row(")
    case, _ = _shrunk((head, edit, entry), given_case((5, 40), 1, "pitched"))
    assert case.inputs["x"].layout.shape == (2, 1)


def test_a_write_past_the_row_shrinks_to_one_element() -> None:
    target = target_of(mutant("generic-writes-past-row"))
    with WorkerPool([target]) as pool:
        # In f16 it writes past a buffer of its own, which glibc may notice: that is another failure.
        found = failures(pool, target, 8)
        case, judgement = next(each for each in found if each[1].verdict is Verdict.FAIL_MEMORY)
        small = shrink(Trials(pool, target, Family.of(judgement)), case)
    assert small.inputs["x"].layout.size == 1


def _odd_case(name: str, shape: tuple[int, ...], axis: int, alias: bool) -> Case:
    layout = lay_out(name, shape, axis, 2, "after", 5)
    values = np.random.default_rng(3).standard_normal(shape).astype("<f4")
    output = Output("f32", layout, "x") if alias else Output("f32", lay_out("padded", shape, axis, 3, "before", 1))
    return Case("rms_norm", {"eps": 0.25, "axis": axis}, {"x": Tensor("f32", layout, values.tobytes())}, {"y": output})


@pytest.mark.parametrize("name", ["contiguous", "padded", "transposed", "reversed", "column_step"])
@pytest.mark.parametrize(("shape", "axis", "alias"), [((3, 5), 1, True), ((2, 3, 4), 1, False), ((7,), 0, False)])
def test_the_whole_is_the_case_itself_and_every_reduction_is_a_sound_case(
    name: str, shape: tuple[int, ...], axis: int, alias: bool
) -> None:
    case = _odd_case(name, shape, axis, alias)
    choices = Choices(case)
    assert choices.apply(choices.whole).digest == case.digest
    smallest = choices.apply((0,) * len(choices.ranges))
    assert smallest.inputs["x"].layout.shape == (1, 1)
    assert smallest.outputs["y"].alias is None


def test_a_reduction_keeps_the_values_of_the_rows_and_columns_it_keeps() -> None:
    case = _odd_case("transposed", (4, 6), 1, False)
    choices = Choices(case)
    vector = dict(zip(choices.ranges, choices.whole, strict=True))
    vector["rows", "0"], vector["n", ""], vector["row start", "0"], vector["column start", ""] = 1, 2, 2, 3
    kept = choices.apply(tuple(vector.values())).inputs["x"]
    values = np.frombuffer(case.inputs["x"].bits, "<f4").reshape(4, 6)
    assert np.array_equal(np.frombuffer(kept.bits, "<f4").reshape(2, 3), values[2:4, 3:6])
    assert kept.layout.strides == case.inputs["x"].layout.strides


_LARGE = 1024.0
_LARGE_IS_WRONG = (("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (x[i] > 100.0f ? 1.5f : 1.0f);"),)
_TWO_LARGE_ARE_WRONG = (
    ("y[i] = x[i] * rstd;", "{ large += x[i] > 100.0f; y[i] = x[i] * rstd * (large > 1 ? 1.5f : 1.0f); }"),
    ("static void generic_row(", "static int large;\n\nstatic void generic_row("),
    ("const float rstd", "large = 0;\n    const float rstd"),
)


def _with_large_ones(case: Case, places: Sequence[int]) -> Case:
    x = case.inputs["x"]
    values = np.frombuffer(x.bits, "<f4").copy()
    values[list(places)] = _LARGE
    return replace(case, inputs={"x": replace(x, bits=values.tobytes())})


@pytest.mark.some(1)
@pytest.mark.parametrize("place", [0, 420, 999])
def test_one_bad_element_shrinks_to_itself_wherever_it_is(place: int) -> None:
    """As a run does it: what waits in a pile does not say any more which element was the worst. Time is over once it is
    shrunk: it need not be explained."""
    said = list[str]()
    allowance = TimeAllowance(600.0, say=said.append, stop=lambda: any("probing" in each for each in said))
    target = target_of(with_edits(*_LARGE_IS_WRONG), "O2")
    with WorkerPool([target]) as pool:
        pile = Pile()
        found = _with_large_ones(given_case((1, 1000), 1, "contiguous"), [place])
        pile.add(Finding(*failing(pool, target, found)))
        finding = diagnose(pool, [target], pile.findings[0], allowance)
    assert finding.case.inputs["x"].layout.shape == (1, 1)


def test_the_only_large_element_of_a_row_shrinks_to_itself() -> None:
    """It is an outlier of a row of three or more; of a row of one it is none, and 1 takes its place as another's."""
    edit = (_LARGE_IS_WRONG[0][0], _LARGE_IS_WRONG[0][1].replace("100.0f", "1000.0f"))
    case, _ = _shrunk((edit,), _with_large_ones(given_case((2, 40), 1, "contiguous"), [39]))
    assert case.inputs["x"].layout.shape == (1, 1)


@pytest.mark.whole
def test_what_stands_before_and_after_the_elements_that_matter_is_dropped() -> None:
    case, _ = _shrunk(_TWO_LARGE_ARE_WRONG, _with_large_ones(given_case((1, 300), 1, "contiguous"), [100, 110]))
    assert case.inputs["x"].layout.shape == (1, 2), "once the row is short, plainer values are large in all of it"


def test_shrinking_gives_the_same_case_every_time() -> None:
    first, second = (_shrunk((TAIL_63,), given_case((9, 575), 1, "pitched"))[0].digest for _ in range(2))
    assert first == second


def test_a_time_that_is_over_leaves_the_case_as_it_is() -> None:
    target = target_of(with_edits(TAIL_63), "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, given_case((9, 575), 1, "pitched"))
        ticking: Callable[[], bool] = iter([False, *[True] * 10_000]).__next__
        assert shrink(Trials(pool, target, Family.of(judgement), ticking), case) == case


def test_variants_that_pass_are_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of hundreds do: none of them is worth a question of its own."""
    target = target_of(with_edits(TAIL_63), "O2")
    monkeypatch.setattr(Truth, "check", lambda *_: pytest.fail("it was asked by itself"))
    with WorkerPool([target]) as pool:
        judged = Trials(pool, target, Family("values")).judge([given_case((2, n), 1) for n in range(1, 40)])
    assert {each.verdict for each in judged if each is not None} == {Verdict.PASS}
