"""A finding is attributed, shrunk and explained in one go, within its bounds."""

from __future__ import annotations

import re

import pytest

from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.feature import Feature
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.diagnosis import TimeAllowance, diagnose
from fuzz.explain.finding import Diagnosis, Finding
from fuzz.explain.rule.rule import Atom, Rule
from fuzz.tests.common.hunting import GENERIC, TAIL_63, failing, given_case, with_edits
from fuzz.tests.common.told import lines_of

_SCALED = ("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (WRONG ? 1.5f : 1.0f);")
_AT_O0 = (_SCALED[0], _SCALED[1].replace("WRONG", "0\n#ifndef __OPTIMIZE__\n+ 1\n#endif\n"))


def _targets(*kernels: Kernel) -> list[Target]:
    return [target for target in expand(kernels, this_host()) if target.unavailable() is None]


def _diagnosed(kernel: Kernel, ending: str, allowance: TimeAllowance) -> tuple[Finding, Diagnosis]:
    targets = _targets(kernel, GENERIC)
    found = next(t for t in targets if t.kernel is kernel and t.id.endswith(ending))
    with WorkerPool(targets) as pool:
        case, judgement = failing(pool, found, given_case((4, 191), 1, "pitched"))
        finding = diagnose(pool, targets, Finding(case, judgement), allowance)
    assert finding.diagnosis is not None
    return finding, finding.diagnosis


@pytest.mark.whole
def test_a_finding_is_shrunk_attributed_and_explained_and_told_as_it_goes() -> None:
    told: list[str] = []
    finding, diagnosis = _diagnosed(with_edits(TAIL_63), "O0", TimeAllowance(seconds=600.0, say=told.append))
    assert finding.case.inputs["x"].layout.shape == (1, 63)
    assert finding.target.endswith("O2"), "the faster of the targets that fail alike"
    assert finding.judgement.case == finding.case.digest
    worst = finding.judgement.worst
    assert worst is not None
    assert worst.contradicts, "the precise tier confirms what is shown"
    assert diagnosis.attribution is not None
    assert diagnosis.attribution.cause == "the kernel's source"
    assert diagnosis.attribution.evidence.startswith("planted fails on all ")
    assert "another kernel of the same source or library agrees with the oracle" in diagnosis.attribution.evidence
    explanation = diagnosis.conclusion
    [said] = [line for line in lines_of(finding) if line.startswith("fails when: ")]
    assert "n mod 64 = 63" in said
    assert re.search(r"\([\d,]+ cases agree and none is against it; [\d,]+ of them were drawn to refute it", said), said
    assert explanation.learned is not None
    assert explanation.learned.agreeing / explanation.learned.probes > 0.97
    assert sum(explanation.tested) > 10
    assert diagnosis.fitting is None or not diagnosis.fitting.telling, "a bug is no other contract"
    assert any("n 191 -> 63" in line for line in told)
    assert diagnosis.whole


@pytest.mark.whole
def test_a_failure_at_one_optimisation_level_is_put_down_to_the_compiler() -> None:
    _, diagnosis = _diagnosed(with_edits(_AT_O0), "O0", TimeAllowance(seconds=600.0))
    assert diagnosis.attribution is not None
    assert diagnosis.attribution.cause == "compiler and flags"
    assert "those with optimisation = -O0" in diagnosis.attribution.evidence
    assert diagnosis.conclusion.learned is not None
    assert "optimisation = -O0" in str(diagnosis.conclusion.learned.rule)


def test_a_wish_to_stop_keeps_what_is_known() -> None:
    finding, diagnosis = _diagnosed(with_edits(TAIL_63), "O2", TimeAllowance(stop=lambda: True))
    assert finding.case == diagnosis.original
    assert finding.judgement.verdict.is_finding
    assert not diagnosis.whole


def test_time_that_is_over_is_said() -> None:
    finding, diagnosis = _diagnosed(with_edits(TAIL_63), "O2", TimeAllowance(seconds=0.0))
    assert not diagnosis.whole
    assert "not finished" in lines_of(finding)[-1]


@pytest.mark.some(1)
@pytest.mark.parametrize("most_hangs", [1, None])
@pytest.mark.parametrize(("pause", "shown"), [(200_000, 6), (30_000_000, 5)])
def test_what_is_shown_to_hang_has_no_answer_in_the_whole_limit(
    pause: int, shown: int, most_hangs: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shrunk with less, in which what is only slow has none either. That is so, too, where the running worker
    has hung too often to be asked."""
    monkeypatch.setattr("fuzz.explain.diagnosis._HANGING_S", 0.05)
    waits = f"extern int usleep(unsigned); if (n > 4) usleep(n > 5 ? 30000000 : {pause});"
    kernel = with_edits(("float total = 0.0f;", f"float total = 0.0f; {waits}"))
    (target,) = [each for each in _targets(kernel) if each.id.endswith("native:gcc-O2")]
    said = list[str]()
    allowance = TimeAllowance(600.0, say=said.append, stop=lambda: any("probing" in each for each in said))
    with WorkerPool([target], limit=0.6, most_hangs=most_hangs) as pool:
        finding = diagnose(pool, [target], Finding(*failing(pool, target, given_case((1, 6), 1))), allowance)
    assert any("n 6 -> 5" in each for each in said)
    assert finding.case.inputs["x"].layout.shape == (1, shown)
    assert finding.judgement.verdict is Verdict.TIMEOUT
    assert "no answer within 0.6 s" in finding.judgement.reason


def test_a_finding_is_not_moved_to_a_target_whose_failures_are_another_findings() -> None:
    """All that fails there would be said to be that one's, and nothing would be left to explain."""
    kernel = with_edits(TAIL_63)
    targets = _targets(kernel, GENERIC)
    found = next(t for t in targets if t.kernel is kernel and t.id.endswith("O0"))
    known = [Rule((Atom(Feature("target", "optimisation"), "=", ("-O2",), 1.0),))]
    said = list[str]()
    allowance = TimeAllowance(600.0, say=said.append, stop=lambda: any("probing" in each for each in said))
    with WorkerPool(targets) as pool:
        finding = diagnose(pool, targets, Finding(*failing(pool, found, given_case((1, 63), 1))), allowance, known)
    assert finding.target == found.id
    assert finding.case.inputs["x"].layout.shape == (1, 63)
