"""Explanations that stand on all of their probes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.base.kernel import Kernel
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.diagnosis import TimeAllowance, diagnose
from fuzz.explain.finding import Finding
from fuzz.explain.shrink.shrink import shrink
from fuzz.explain.stages.conclusion import Conclusion
from fuzz.explain.stages.explain import explain
from fuzz.explain.trial.trial import Family, Trials
from fuzz.report.words import places_words
from fuzz.tests.common.hunting import TAIL_63, failing, given_case, target_of, with_edits
from fuzz.tests.common.shared_pack import OWN, SHARED
from fuzz.tests.common.told import concluded_lines
from fuzz.tests.cover.explain.test_memory import DSUM_IS_X, FORGOTTEN, RANK_2
from fuzz.tests.cover.explain.test_shared import buckets_of

_SCALED = ("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (WRONG ? 1.5f : 1.0f);")


def _explained(kernel: Kernel, found: Case) -> Conclusion:
    target = target_of(kernel, "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, found)
        trials = Trials(pool, target, Family.of(judgement))
        return explain(trials, shrink(trials, case))


def test_bad_elements_are_told_by_their_place() -> None:
    edit = (_SCALED[0], _SCALED[1].replace("WRONG", "i % 8 == 5 && i >= n - n % 64"))
    explanation = _explained(with_edits(edit), given_case((4, 191), 1, "pitched"))
    assert explanation.places is not None
    assert places_words(explanation.places).startswith("tail of 64 = inside and column mod 8 = 5, in y")


def test_a_rule_that_no_probe_refutes_is_held_against_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any probe that is drawn to refute it, cases of a search show a rule to be wrong, until it is true of
    1,000 of them, one after the other. So it may be wrong of a length that none of them has, such as 959, or that one
    has with values that hide it, such as 895."""
    edit = (_SCALED[0], _SCALED[1].replace("WRONG", "n % 64 == 63 && n <= 1000"))
    monkeypatch.setattr("fuzz.explain.stages.explain.refuting", lambda *_, **__: iter(()))
    monkeypatch.setattr("fuzz.explain.stages.explain._SEARCHED", 0)
    monkeypatch.setattr("fuzz.explain.stages.explain.probes.mixed", lambda *_, **__: iter(()))
    explanation = _explained(with_edits(edit), found=given_case((4, 127), 1, "pitched"))
    assert explanation.stands
    assert explanation.true_of >= 1000
    said = concluded_lines(explanation)[0]
    assert re.match(r"fails when: n <= (8[3-9]\d|9\d\d|10[01]\d|102[0-2]) and n mod 64 = 63\b", said), said
    assert re.search(r"; it is true of 1,\d+ further cases of a search\)$", said), said


def test_values_that_cause_a_failure_are_stated_as_its_cause() -> None:
    """As in a mean that overflows early: nothing is hidden by smaller numbers, they are no failure."""
    edit = (_SCALED[0], _SCALED[1].replace("WRONG", "total / n > 0x1p60f"))
    scaled = given_case((2, 9), 1, "contiguous")
    x = np.frombuffer(scaled.inputs["x"].bits, "<f4") * np.float32(2.0**40)
    found = replace(scaled, inputs={"x": replace(scaled.inputs["x"], bits=x.astype("<f4").tobytes())})
    learned = _explained(with_edits(edit), found=found).learned
    assert learned is not None
    # Of two rows one may be beyond the limit and the other overflow: no simple rule says that.
    assert re.search(r"\bmean square >= 2\^60\b", str(learned.rule)), learned.rule


def test_that_a_kernel_fails_without_elements_is_told_by_a_search() -> None:
    once = "{ return each_row(call, generic_row); }"
    kernel = with_edits((once, once.replace("{ ", "{ if (!call->x.shape[call->axis]) __builtin_trap(); ")))
    said, held = concluded_lines(_explained(kernel, found=given_case((3, 0), 1, "contiguous")))
    begins = r"fails when: n = 0 \(\d+ cases agree and none is against it; it is true of \d+ further"
    assert re.match(begins, said), said
    assert re.fullmatch(r"held against: \d+ cases pass without n = 0", held), held


def test_a_weight_of_rank_2_is_named_and_its_probes_are_counted() -> None:
    said = concluded_lines(_explained(*RANK_2))[0]
    assert said.startswith("fails when: rank of weight = 2")
    assert re.search(r"\([\d,]+ cases agree and none is against it; ", said)


def test_one_buffer_for_two_inputs_of_a_gradient_is_named() -> None:
    learned = _explained(*DSUM_IS_X).learned
    assert learned is not None
    assert str(learned.rule).startswith("dsum and x are one buffer")


def test_an_overlap_that_a_kernel_forgets_is_told_by_what_it_reads_later() -> None:
    said = concluded_lines(_explained(*FORGOTTEN))[0]
    assert said.startswith("fails when: y overlaps x in part, over elements that come later, unless values"), said


def test_limits_stand_below_a_rule_that_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that errs by chance, as rounding does, in long rows only."""
    # A rule that luck decides does not stand.
    monkeypatch.setattr("fuzz.explain.stages.explain.put_to_test", lambda *_: None)
    by_luck = "(n >= 100 && (((uint32_t)(fabsf(x[0]) * 0x1p20f) * 2654435761u) >> 31) ? 1.5f : 1.0f)"
    kernel = with_edits(("y[i] = x[i] * rstd;", f"y[i] = x[i] * rstd * {by_luck};"))
    target = target_of(kernel, "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, given_case((4, 191), 1, "pitched"))
        lines = concluded_lines(explain(Trials(pool, target, Family.of(judgement)), case))
    assert lines[0] == "fails when: no simple rule says when"
    found = re.match(r"in common: in all failing cases n >= (\d+) \(all [\d,]+ others .* pass\)$", lines[1])
    assert found is not None, lines
    assert 60 <= int(found[1]) <= 100


def test_a_kernel_that_keeps_state_is_probed_in_new_processes() -> None:
    """Each worker goes on with the first eps that it was given, which fails most probes: only the tail is finding."""
    first = "({ static float first = -1; if (first < 0) first = eps; reciprocal_rms(total, n, first); })"
    tail = (TAIL_63[0], TAIL_63[1].replace("n % 64 != 63", "n % 8 != 7").replace("n - n % 64", "n - n % 8"))
    target = target_of(with_edits(tail, ("reciprocal_rms(total, n, eps)", first), name="both"), "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, given_case((3, 47), 1))
        finding = diagnose(pool, [target], Finding(case, judgement), TimeAllowance(seconds=600.0))
    assert str(finding.core) == "n mod 8 = 7"
    assert Frame(finding.case).n == 7


def test_a_bug_of_one_of_two_kernels_is_no_part_of_that_in_their_source(tmp_path: Path) -> None:
    """It is a bucket of its own."""
    buckets = buckets_of(tmp_path, 480, SHARED, OWN)
    cores = {name: str(bucket.core) for name, bucket in buckets.items()}
    assert cores == {"generic": "n mod 64 = 63", "routed": "n mod 16 = 5"}
    assert {target.partition("@")[0] for target in buckets["generic"].targets} == {"c-generic", "c-routed"}
