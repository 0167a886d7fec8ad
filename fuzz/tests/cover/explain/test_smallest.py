"""A sweep finds what is smaller than a case and fails as it does, and finds nothing below what was shrunk."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.core.base.case import Case
from fuzz.core.base.kernel import Kernel
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.shrink.shrink import Swept, shrink, sweep
from fuzz.explain.trial.trial import CLEAR, Family, Trials
from fuzz.tests.common.hunting import TAIL_63, failing, given_case, target_of, with_edits

_SCALED = "y[i] = x[i] * rstd;"


def _swept(kernel: Kernel, found: Case) -> Swept:
    target = target_of(kernel, "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, found)
        return sweep(Trials(pool, target, Family.of(judgement)), case)


def _shape(swept: Swept) -> tuple[int, ...]:
    """Return the shape of x in the smaller case that the sweep found."""
    assert swept.smaller is not None
    return swept.smaller.inputs["x"].layout.shape


@pytest.mark.some(1)
@pytest.mark.parametrize("shape", [(1, 127), (3, 63), (2, 127)])
def test_a_case_that_is_not_the_smallest_is_told_so(shape: tuple[int, int]) -> None:
    swept = _swept(with_edits(TAIL_63), given_case(shape, 1, "pitched"))
    assert not swept.smallest
    assert _shape(swept) == (1, 63)


def test_a_smaller_case_that_fails_by_other_values_only_is_found() -> None:
    needs_a_large_one = (_SCALED, "y[i] = x[i] * rstd * (x[i] > 100.0f ? 1.5f : 1.0f);")
    found = given_case((1, 40), 1, "contiguous")
    values = replace(found.inputs["x"], bits=found.inputs["x"].bits[:-4] + b"\x00\x00\x80\x43")
    swept = _swept(with_edits(needs_a_large_one), replace(found, inputs={"x": values}))
    assert _shape(swept) == (1, 1)


def test_nothing_is_smaller_than_the_smallest() -> None:
    swept = _swept(with_edits(TAIL_63), given_case((1, 63), 1, "contiguous"))
    assert swept.smallest
    assert swept.runs >= 62 * 8, "every shorter row, with several values"


def test_what_passes_when_it_is_built_anew_proves_nothing() -> None:
    """A gap of two after each row is built as a gap of one."""
    at_pitch_11 = with_edits(
        ("static void generic_row(", "static float scale;\n\nstatic void generic_row("),
        (_SCALED, "y[i] = x[i] * rstd * scale;"),
        ("{ return each_row(", "{\n    scale = call->x.strides[0] == 11 ? 1.5f : 1.0f;\n    return each_row("),
    )
    swept = _swept(at_pitch_11, given_case((2, 9), 1, "pitched"))
    assert not swept.smallest
    assert not swept.shown


def test_shrinking_never_walks_to_a_case_that_fails_barely() -> None:
    """Its error grows with n, so a shorter row fails too, by less and less."""
    grows = with_edits((_SCALED, "y[i] = x[i] * rstd * (1.0f + 2e-8f * (float)(n * n));"))
    target = target_of(grows, "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, given_case((3, 200), 1, "pitched"))
        assert judgement.ratio > 10 * CLEAR
        family = Family.of(judgement)
        small = shrink(Trials(pool, target, family), case)
        barely = shrink(Trials(pool, target, replace(family, clear=0.0)), case)
        clear, boundary = (Trials(pool, target, family).judge([each])[0] for each in (small, barely))
    assert clear is not None
    assert boundary is not None
    assert clear.ratio >= CLEAR
    assert boundary.ratio < CLEAR, "there are smaller ones, which fail barely: else this test shows nothing"
    assert barely.inputs["x"].layout.size < small.inputs["x"].layout.size


def test_a_case_that_fails_barely_itself_may_stay_so() -> None:
    grows = with_edits((_SCALED, "y[i] = x[i] * rstd * (1.0f + 2e-8f * (float)(n * n));"))
    target = target_of(grows, "O2")
    with WorkerPool([target]) as pool:
        every = [given_case((2, n), 1, "pitched") for n in range(2, 60)]
        loose = Trials(pool, target, Family("values"))
        judged = [(case, judgement) for case in every for judgement in loose.judge([case]) if judgement is not None]
        case, judgement = next((c, j) for c, j in judged if j.verdict.is_finding and j.ratio < CLEAR)
        small = shrink(Trials(pool, target, Family.of(judgement)), case)
        again = loose.judge([small])[0]
    assert again is not None
    assert again.verdict.is_finding
    assert again.ratio >= judgement.ratio
    assert small.inputs["x"].layout.shape[0] == 1
