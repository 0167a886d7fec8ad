"""The explanation of a planted bug names what was planted, and counts its evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count

import pytest

from fuzz.core.base.case import Case
from fuzz.core.base.feature import Feature
from fuzz.core.base.kernel import Kernel
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.evidence.evidence import Evidence, probe
from fuzz.explain.rule.rule import Atom, Learned, Rule
from fuzz.explain.shrink.shrink import shrink
from fuzz.explain.stages.conclusion import Conclusion, concluded
from fuzz.explain.stages.explain import explain
from fuzz.explain.trial.trial import Family, KeepsStateError, Trials
from fuzz.tests.common.features import ROWS, N, left
from fuzz.tests.common.handmade import a_case
from fuzz.tests.common.hunting import TAIL_63, failing, given_case, mutant, target_of, with_edits
from fuzz.tests.common.told import concluded_lines

_SCALED = ("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (WRONG ? 1.5f : 1.0f);")


def _explained(kernel: Kernel, found: Case | None = None) -> Conclusion:
    target = target_of(kernel, "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, found or given_case((4, 191), 1, "pitched"))
        trials = Trials(pool, target, Family.of(judgement))
        return explain(trials, shrink(trials, case))


def _evidence(kernel: Kernel, cases: Sequence[Case]) -> Evidence:
    """The evidence of these probes alone, of which none was drawn to refute a rule."""
    target = target_of(kernel, "O2")
    with WorkerPool([target]) as pool:
        evidence = Evidence(whole=True)
        probe(Trials(pool, target, Family("values")), cases, evidence)
    return evidence


def test_bad_elements_are_told_by_their_place() -> None:
    edit = (_SCALED[0], _SCALED[1].replace("WRONG", "i % 8 == 5 && i >= n - n % 64"))
    evidence = _evidence(with_edits(edit), [given_case((2, n), 1, "contiguous") for n in range(40, 200, 3)])
    said = concluded_lines(concluded(evidence, ""))[-1]
    assert said.startswith("bad elements: tail of 64 = inside and column mod 8 = 5, in y")


@pytest.mark.some(1)
@pytest.mark.parametrize("batches", [2, 12])
def test_probing_that_was_cut_off_gives_no_rule_and_says_so(batches: int) -> None:
    """Cut off after so many batches, and not by a clock: before and after a second length failed, and before all else
    was varied."""
    target, left = target_of(with_edits(TAIL_63), "O2"), count(batches, -1)
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, given_case((1, 63), 1, "contiguous"))
        explanation = explain(Trials(pool, target, Family.of(judgement), out_of_time=lambda: next(left) <= 0), case)
    assert not explanation.whole
    assert explanation.rule is explanation.core is None
    assert explanation.learned is not None
    assert concluded_lines(explanation)[0] == "fails when: no simple rule says when"


def test_what_failing_cases_share_is_told_where_the_time_was_over_before_a_rule_stood() -> None:
    """Which is all that a slow target has time for."""
    evidence = _evidence(with_edits(TAIL_63), [given_case((1, n), 1, "contiguous") for n in range(20, 200)])
    evidence.whole = False
    said = concluded_lines(concluded(evidence, ""))[1]
    assert said == "in common: in all failing cases n mod 32 = 31 (all 174 others that were tried pass)"


def test_a_rule_that_no_probe_contradicts_is_not_stated_before_it_was_put_to_the_test() -> None:
    """The time was over before it was true of 1,000 cases of a search."""
    evidence = _evidence(with_edits(TAIL_63), [given_case((1, n), 1, "contiguous") for n in range(1, 200)])
    evidence.true_of = 8
    found = concluded(evidence, "")
    assert found.learned is not None
    assert found.learned.exact
    assert str(found.learned.rule) == "n mod 64 = 63"
    assert found.doubt == "the time was over while it was put to the test, true of the last 8 cases of a search"
    assert concluded_lines(found)[0] == "fails when: no simple rule says when"


def test_a_rule_is_stated_only_if_twenty_cases_pass_that_lack_one_of_its_conditions_alone() -> None:
    """With fewer, another condition is as likely: what goes with it in the few."""
    for passing, stands in ((19, False), (20, True)):
        lengths = (*range(62 - passing, 62), 63, 127, 191)
        evidence = _evidence(with_edits(TAIL_63), [given_case((1, n), 1, "contiguous") for n in lengths])
        evidence.whole = evidence.tested = evidence.stands = True
        found = concluded(evidence, "")
        assert found.stands == stands, found.doubt
        assert ("cases pass without" in found.doubt) != stands


def test_what_fails_only_after_other_calls_is_told_apart_from_what_never_fails() -> None:
    """A kernel that has failed once and never again gives no probe that fails."""
    kernel = with_edits((_SCALED[0], "{ static size_t calls; y[i] = x[i] * rstd * (calls++ < n ? 1.5f : 1.0f); }"))
    target = target_of(kernel, "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, given_case((1, 63), 1, "contiguous"))
        with pytest.raises(KeepsStateError):
            explain(Trials(pool, target, Family.of(judgement)), case)


def test_that_a_kernel_fails_without_elements_is_told_by_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of such a case can be varied."""
    some = [given_case((rows, n), 1, "contiguous") for rows in (1, 2, 4) for n in range(5)]
    some += [a_case("rms_norm", (), (rows, n), scale=0.0) for rows in (1, 2) for n in (1, 4)]
    monkeypatch.setattr("fuzz.explain.stages.explain.searched", lambda *_: some)
    monkeypatch.setattr("fuzz.explain.stages.conclusion.HELD", 8)
    once = "{ return each_row(call, generic_row); }"
    kernel = with_edits((once, once.replace("{ ", "{ if (!call->x.shape[call->axis]) __builtin_trap(); ")))
    said, held = concluded_lines(_explained(kernel, found=given_case((3, 0), 1, "contiguous")))
    assert held == "held against: 14 cases pass without n = 0"
    assert re.match(r"fails when: n = 0 \(\d+ cases agree and none is against it; it is true of \d+ further", said), (
        said
    )
    rare = kernel.edits[0][1].replace("[call->axis])", "[call->axis] && call->x.shape[0] == 3 && call->eps == 0.25f)")
    (said,) = concluded_lines(_explained(with_edits((once, rare)), found=given_case((3, 0), 1, "contiguous", 0.25)))
    assert said == "fails when: no simple rule says when", "of one failure any rule would be chance"
    limits = ((N, 0), (ROWS, 1), (Feature("scale", "eps"), 0.0))
    assert [str(Atom(trait, "<=", (value,), 1.0)) for trait, value in limits] == [
        "n = 0", "rows <= 1", "eps <= 0",
    ]  # fmt: skip


@pytest.mark.whole
def test_kernels_that_reject_what_they_must_are_no_probes_of_those_that_do_not() -> None:
    found = _explained(mutant("generic-takes-any-strides"), found=given_case((4, 6), 0, "contiguous"))
    said = concluded_lines(found)[0]
    assert said.startswith("fails when: the input is invalid (")


def test_values_that_only_hide_a_failure_come_after_its_cause() -> None:
    cause, hiding = Atom(left("n", 64), "=", (63,), 1.0), Atom(Feature("zero row", "x"), "=", ("no",), 1.0)
    both, core = Rule((hiding, cause)), Rule((cause,))
    learned = Learned(both, 9, 9)
    for own, said in (
        (core, "n mod 64 = 63; it shows only where x has no row of zeros"),
        (both, "x has no row of zeros and n mod 64 = 63"),
        (Rule(), "x has no row of zeros and n mod 64 = 63"),
    ):
        [line] = concluded_lines(Conclusion(learned, None, core=own, cores=(own,), stands=True))
        assert line == f"fails when: {said} (9 cases agree and none is against it)"
    always = Conclusion(Learned(Rule(), 9, 9), None, cores=(Rule(),), stands=True)
    assert concluded_lines(always) == ["fails when: always (9 cases agree and none is against it)"]
