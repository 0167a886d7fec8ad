"""Failures are sorted by their causes: bands of one condition are one."""

from __future__ import annotations

from dataclasses import replace

from fuzz.base.case import Case
from fuzz.base.draw import Frame
from fuzz.base.verdict import Verdict
from fuzz.findings.bucket import rule_from_text, rule_to_text
from fuzz.judge.judge import Judgement
from fuzz.tests.common.hunting import GENERIC, given_case, target_of
from fuzz.triage.causes import Cause, causes_of
from fuzz.triage.explanation import Explanation
from fuzz.triage.finding import Diagnosis, Finding
from fuzz.triage.rule import Atom, Rule

_BANDS = ((3, 5), (20, 24), (40, 41))


def _of(*bands: tuple[int, int], also: int = 0) -> Rule:
    ends = tuple(end for band in bands for end in band)
    return Rule((Atom("n", "within", ends, 1.0), *([Atom("rows", ">=", (also,), 1.0)] if also else [])))


def _causes(rules: dict[int, Rule]) -> list[Cause]:
    """The causes, where the smallest failure of each band is told by its rule."""
    target = target_of(GENERIC, "O2")

    def told(case: Case, rule: Rule | None) -> Finding:
        judgement = Judgement(target.id, case, Verdict.FAIL_NUMERIC, 9.0)
        diagnosis = None if rule is None else Diagnosis(case, None, Explanation(None, None, core=rule))
        return Finding(case, judgement, diagnosis=diagnosis)

    findings = [told(given_case((2, n), 1, "contiguous"), None) for low, high in _BANDS for n in range(low, high + 1)]
    return causes_of(findings, {target.id: target}, lambda each, _: told(each.case, rules[Frame(each.case).n]))


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
    assert [n for n in range(50) if core.holds({"n": n})] == _lengths(causes)[0]
    assert causes[0].finding.lines()[-2:] == ("fails also when: n in 20..24", "fails also when: n in 40..41")


def test_another_condition_is_another_cause() -> None:
    causes = _causes({3: _of(_BANDS[0]), 20: _of(*_BANDS[1:], also=2)})
    assert _lengths(causes) == [[3, 4, 5], [20, 21, 22, 23, 24, 40, 41]]


def test_bands_are_kept_as_text() -> None:
    rule = _of(*_BANDS)
    assert str(rule) == "n in 3..5 or 20..24 or 40..41"
    assert rule_from_text(rule_to_text(rule)) == rule


def test_failures_of_other_verdicts_that_no_rule_tells_apart_are_counted() -> None:
    target, verdicts = (
        target_of(GENERIC, "O2"),
        [Verdict.FAIL_MEMORY, *[Verdict.FAIL_NONFINITE] * 2, Verdict.FAIL_NUMERIC],
    )
    cases = [given_case((2, n), 1, "contiguous") for n in (3, 4, 5, 6)]
    findings = [Finding(c, Judgement(target.id, c, v, 9.0)) for c, v in zip(cases, verdicts, strict=True)]

    def told(core: Rule | None) -> list[str]:
        diagnosis = Diagnosis(cases[0], None, Explanation(None, None, core=core))
        (cause,) = causes_of(findings, {target.id: target}, lambda each, _: replace(each, diagnosis=diagnosis))
        assert len(cause.members) == len(findings)
        return [line for line in cause.finding.lines() if line.startswith("also here")]

    assert told(None) == ["also here: 2 FAIL_NONFINITE and 1 FAIL_NUMERIC, which no rule tells from this failure"]
    assert told(_of((3, 6))) == [], "one rule holds of all"
