"""Failures are sorted by their causes: bands of one condition are one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import Judgement
from fuzz.explain.causes import Cause, causes_of
from fuzz.explain.explanation import Counterfactual
from fuzz.explain.finding import Diagnosis, Finding
from fuzz.explain.rule.rule import Atom, Learned, Rule
from fuzz.explain.stages.conclusion import Conclusion
from fuzz.explain.stages.counterfactuals import Fitting
from fuzz.findings.codec import rule_from_text, rule_to_text
from fuzz.tests.common.features import ROWS, N
from fuzz.tests.common.hunting import GENERIC, failing, given_case, target_of, with_edits
from fuzz.tests.common.told import lines_of
from oracles.neighbours import Neighbour

_BANDS = ((3, 5), (20, 24), (40, 41))


def _of(*bands: tuple[int, int], also: int = 0) -> Rule:
    ends = tuple(end for band in bands for end in band)
    return Rule((Atom(N, "within", ends, 1.0), *([Atom(ROWS, ">=", (also,), 1.0)] if also else [])))


def _causes(rules: dict[int, Rule], *, are_one: bool = False) -> list[Cause]:
    """The causes, where the smallest failure of each band is told by its rule, and two of other rules may be one."""
    target = target_of(GENERIC, "O2")

    def told(case: Case, rule: Rule | None) -> Finding:
        judgement = Judgement(target.id, case, Verdict.FAIL_NUMERIC, 9.0)
        diagnosis = None if rule is None else Diagnosis(case, None, Conclusion(None, None, core=rule))
        return Finding(case, judgement, diagnosis=diagnosis)

    findings = [told(given_case((2, n), 1, "contiguous"), None) for low, high in _BANDS for n in range(low, high + 1)]
    return causes_of(
        findings, {target.id: target}, lambda each, _: told(each.case, rules[Frame(each.case).n]), lambda *_: are_one
    )


def _lengths(causes: list[Cause]) -> list[list[int]]:
    """Those of the members of each cause."""
    return [sorted(Frame(each.case).n for each in cause.members) for cause in causes]


def test_bands_that_lie_apart_are_one_cause() -> None:
    causes = _causes({3: _of(_BANDS[0]), 20: _of(_BANDS[1]), 40: _of(_BANDS[2])})
    assert _lengths(causes) == [[3, 4, 5, 20, 21, 22, 23, 24, 40, 41]]
    core = causes[0].finding.core
    assert core is not None
    kept = rule_from_text(rule_to_text(core))
    assert kept == core, "a later session finds each of the bands again"
    assert [n for n in range(50) if core.holds({N: n})] == _lengths(causes)[0]
    assert [*map(str, core.bands)] == ["n in 20..24", "n in 40..41"]


def test_another_condition_is_another_cause() -> None:
    causes = _causes({3: _of(_BANDS[0]), 20: _of(*_BANDS[1:], also=2)})
    assert _lengths(causes) == [[3, 4, 5], [20, 21, 22, 23, 24, 40, 41]]


def test_another_condition_is_the_same_cause_where_values_lead_from_one_to_the_other() -> None:
    [cause] = _causes({3: _of(_BANDS[0]), 20: _of(*_BANDS[1:], also=2)}, are_one=True)
    assert _lengths([cause]) == [[3, 4, 5, 20, 21, 22, 23, 24, 40, 41]]
    core = cause.finding.core
    assert core is not None
    assert [n for n in range(50) if core.holds({N: n, ROWS: 2})] == _lengths([cause])[0]


def test_bands_are_kept_as_text() -> None:
    rule = _of(*_BANDS)
    assert str(rule) == "n in 3..5 or 20..24 or 40..41"
    assert rule_from_text(rule_to_text(rule)) == rule


def test_without_a_rule_a_stray_access_and_wrong_values_are_two_causes() -> None:
    """One index may show as either; but of two bugs the second one must not stand unseen behind the first."""
    target, number, wrong = target_of(GENERIC, "O2"), Verdict.FAIL_NUMERIC, Verdict.FAIL_NONFINITE
    verdicts = [Verdict.FAIL_MEMORY, wrong, Verdict.FAIL_MEMORY, number, wrong]
    cases = [given_case((2, n), 1, "contiguous") for n in range(3, 3 + len(verdicts))]
    findings = [Finding(c, Judgement(target.id, c, v, 9.0)) for c, v in zip(cases, verdicts, strict=True)]

    def causes(core: Rule | None) -> list[Cause]:
        diagnosis = Diagnosis(cases[0], None, Conclusion(None, None, core=core))
        return causes_of(findings, {target.id: target}, lambda each, _: replace(each, diagnosis=diagnosis))

    memory, values = causes(None)
    told = [each.finding.judgement.verdict for each in (memory, values)]
    assert told == [Verdict.FAIL_MEMORY, number], "numbers are looked at before NaN, though they are larger"
    assert _lengths([memory, values]) == [[3, 5], [4, 6, 7]]
    assert not [line for line in lines_of(memory.finding) if line.startswith("also here")]
    assert lines_of(values.finding)[-1] == "also here: 2 FAIL_NONFINITE; no rule says whether that is the same bug"
    smaller = Diagnosis(cases[0], None, Conclusion(None, None))
    shrunk = Finding(cases[0], Judgement(target.id, cases[0], number, 9.0), diagnosis=smaller)
    ways = causes_of(findings, {target.id: target}, lambda *_: shrunk)
    assert _lengths(ways) == [[3, 5], [4, 6, 7]], "though each shows in another way once it is small"
    (one,) = causes(_of((3, 7)))
    assert _lengths([one]) == [[3, 4, 5, 6, 7]], "one rule holds of all"
    assert not [line for line in lines_of(one.finding) if line.startswith("also here")]


def test_what_makes_the_smallest_case_pass_is_held_against_all_failures_of_its_cause() -> None:
    """A kernel that crashes at each seventh call was said to pass at b = 2, 4, 8, 16: these were other calls."""
    target, cases = target_of(GENERIC, "O2"), [given_case((2, n), 1, "contiguous") for n in range(3, 24)]
    findings = [Finding(case, Judgement(target.id, case, Verdict.CRASH)) for case in cases]
    told = Diagnosis(cases[0], None, Conclusion(None, None), counterfactuals=(Counterfactual("n", 3, (2, 4, 8), ()),))
    (cause,) = causes_of(findings, {target.id: target}, lambda each, _: replace(each, diagnosis=told))
    assert cause.finding.diagnosis is not None
    assert cause.finding.diagnosis.counterfactuals == (Counterfactual("n", 3, (2,), (), (4, 8), 21),)


def test_a_rare_failure_that_shows_in_another_way_is_no_stray_of_the_first() -> None:
    target = target_of(GENERIC, "O2")
    rule = _of((3, 80))
    cases = [given_case((2, n), 1, "contiguous") for n in (*range(3, 81), 90, 95)]
    verdicts = [Verdict.FAIL_MEMORY] * 79 + [Verdict.FAIL_NONFINITE]
    findings = [Finding(c, Judgement(target.id, c, v, 9.0)) for c, v in zip(cases, verdicts, strict=True)]

    def diagnosed(finding: Finding, known: Sequence[Rule]) -> Finding | None:
        told = Conclusion(None, None) if known else Conclusion(Learned(rule, 9, 9), None, whole=True, core=rule)
        return replace(finding, diagnosis=Diagnosis(finding.case, None, told))

    causes = causes_of(findings, {target.id: target}, diagnosed)
    assert [each.finding.judgement.verdict for each in causes][-1] == Verdict.FAIL_NONFINITE
    assert _lengths(causes)[-1] == [95]
    (alone,) = causes_of(findings[:79], {target.id: target}, diagnosed)
    assert len(alone.members) == 79, "one that shows as they do is put to them"


def test_a_failure_that_the_contract_of_a_cause_explains_is_one_of_it_outside_its_rule() -> None:
    """So it is not shown as plain wrong values where there was no time to look at it."""
    target, case = (
        target_of(with_edits(("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n, eps) * 1.00001f"))),
        given_case((2, 3), 1),
    )
    with WorkerPool([target]) as pool:
        judgement = failing(pool, target, case)[1]
    for ulp, excused in ((1000.0, True), (8.0, False)):
        wider = replace(target.contract, accuracy={**target.contract.accuracy, "rsqrt": ulp})
        fitting = Fitting(Neighbour(wider, ("accuracy",)), target.contract, 1.0, 1.0, 1.0, 3, 3)
        diagnosis = Diagnosis(case, None, Conclusion(None, None, core=_of((5, 9))), fitting=fitting)
        cause = Cause(Finding(case, judgement, diagnosis=diagnosis), [], "")
        assert not cause.explains(Finding(case, judgement), {target.id: target})
        assert cause.excuses(Finding(case, judgement)) == excused
