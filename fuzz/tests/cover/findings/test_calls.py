"""What is kept of the calls before a finding, and for how long."""

from __future__ import annotations

from fuzz.campaign.search.turn_runner import FIRST, LATEST, CallLog, FindingId
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.tests.common.examples import plain

TARGET = "c-k@native:gcc-O2"


def _judgement(case: Case, verdict: Verdict = Verdict.PASS, target: str = TARGET) -> Judgement:
    return Judgement(target, case.digest, verdict)


def _id(finding: Judgement) -> FindingId:
    return finding.target, finding.case


def test_the_first_and_the_latest_calls_of_each_process_are_kept() -> None:
    calls = CallLog(tuple)
    cases = [plain(1 + n % 300, rows=1 + n // 300) for n in range(FIRST + LATEST + 50)]
    for case in cases:
        calls.judged(case, [_judgement(case), _judgement(case, Verdict.NOT_RUN, "elsewhere")])
    failing = plain(7, eps=1.0)
    finding = _judgement(failing, Verdict.FAIL_NUMERIC)
    elsewhere = _judgement(failing, Verdict.FAIL_NUMERIC, "elsewhere")
    calls.judged(failing, [finding, elsewhere])
    assert calls.before(_id(finding)) == (*cases[:FIRST], *cases[-LATEST:])
    assert calls.before(_id(elsewhere)) == (), "nothing was called there"


def test_the_case_of_a_broken_law_is_no_call_before_itself() -> None:
    calls = CallLog(tuple)
    before, case, twin = plain(3), plain(4), plain(5)
    for each in (before, case):
        calls.judged(each, [_judgement(each)])
    finding = _judgement(case, Verdict.FAIL_LAW)
    calls.judged(twin, [finding])
    assert calls.before(_id(finding)) == (before,)


def test_a_process_that_died_leaves_nothing_behind() -> None:
    calls = CallLog(tuple)
    calls.judged(plain(3), [_judgement(plain(3))])
    died = Judgement(TARGET, plain(4).digest, Verdict.CRASH, outcome=Outcome(TARGET, Status.DIED))
    calls.judged(plain(4), [died])
    assert calls.before(_id(died)) == (plain(3),)
    after = _judgement(plain(5), Verdict.FAIL_NUMERIC)
    calls.judged(plain(5), [after])
    assert calls.before(_id(after)) == ()


def test_calls_before_findings_that_nobody_keeps_are_forgotten() -> None:
    kept: set[FindingId] = set()
    calls = CallLog(lambda: kept)
    calls.judged(plain(3), [_judgement(plain(3))])
    findings = [_judgement(plain(n), Verdict.FAIL_NUMERIC) for n in (5, 6)]
    kept.add((TARGET, findings[1].case))
    for n, finding in zip((5, 6), findings, strict=True):
        calls.judged(plain(n), [finding])
    calls.progress(0.0)
    assert calls.before(_id(findings[0])) == ()
    assert calls.before(_id(findings[1])) == (plain(3), plain(5))
