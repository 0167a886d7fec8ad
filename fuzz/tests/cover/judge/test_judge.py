"""Every way an outcome can be wrong becomes its own verdict, and a right one passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Damage, Fault, Outcome, Status, Unwritten
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judge, Judgement
from fuzz.tests.common.examples import plain
from oracles.formula.contract import Contract
from oracles.truth import OutputCheck

TARGET = "c-test@native:gcc-O2"


def _case(recipe: str = "normal", eps: float = 1e-5) -> Case:
    return plain(7, rows=3, eps=float(np.float32(eps)), recipe=recipe)


def _correct(case: Case) -> NDArray[np.float32]:
    x = np.frombuffer(case.inputs["x"].bits, np.float32).reshape(3, 7).astype(np.float64)
    y: NDArray[np.float32] = (x / np.sqrt((x * x).mean(axis=1, keepdims=True) + case.params["eps"])).astype(np.float32)
    return y


def _judge(case: Case, y: NDArray[np.float32]) -> Judgement:
    return Judge(case).judge(Outcome(TARGET, Status.RAN, {"y": y.tobytes()}), Contract())


def test_a_correct_output_passes_and_its_bytes_are_not_kept() -> None:
    judgement = _judge(_case(), _correct(_case()))
    assert judgement.verdict is Verdict.PASS
    assert 0 <= judgement.ratio <= 1
    assert judgement.outcome is None


def test_one_wrong_element_is_found_where_it_is() -> None:
    wrong = _correct(_case())
    wrong[2, 4] *= 1 + 2.0**-18
    judgement = _judge(_case(), wrong)
    assert judgement.verdict is Verdict.FAIL_NUMERIC
    assert judgement.ratio > 1
    assert judgement.worst is not None
    assert judgement.worst.worst_index == (2, 4)
    assert judgement.worst.failing == 1
    assert judgement.outcome is not None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_non_finite_value_where_none_may_be(value: float) -> None:
    wrong = _correct(_case())
    wrong[0, 0] = value
    assert _judge(_case(), wrong).verdict is Verdict.FAIL_NONFINITE


def test_a_missing_nan_is_found() -> None:
    case = _case("one_nan")
    y = _correct(case)
    assert _judge(case, y).verdict is Verdict.PASS
    y[np.isnan(y)] = 1.0
    assert _judge(case, y).verdict is Verdict.FAIL_NONFINITE


def test_all_zeros_never_pass() -> None:
    assert _judge(_case(), np.zeros((3, 7), np.float32)).verdict is Verdict.FAIL_NUMERIC


@pytest.mark.parametrize(
    ("outcome", "verdict", "words"),
    [
        (Outcome(TARGET, Status.NOT_RUN, detail="no QEMU"), Verdict.NOT_RUN, "no QEMU"),
        (Outcome(TARGET, Status.DIED, detail="killed by SIGABRT"), Verdict.CRASH, "SIGABRT"),
        (Outcome(TARGET, Status.HUNG, detail="no answer"), Verdict.TIMEOUT, "no answer"),
        (Outcome(TARGET, Status.REJECTED), Verdict.REJECTED, "refused"),
        (Outcome(TARGET, Status.FAULT, fault=Fault("SIGILL")), Verdict.CRASH, "SIGILL"),
        (
            Outcome(TARGET, Status.FAULT, fault=Fault("SIGSEGV", "x", 2, 0, "read")),
            Verdict.FAIL_MEMORY,
            "SIGSEGV: read right after the end of x, row 2",
        ),
        (
            Outcome(TARGET, Status.FAULT, fault=Fault("SIGSEGV", "y", 0, -4, "write")),
            Verdict.FAIL_MEMORY,
            "wrote 4 bytes before the start of y",
        ),
        (
            Outcome(TARGET, Status.RAN, damage=(Damage("y", "gap", 1, 28, "inside", 4),)),
            Verdict.FAIL_MEMORY,
            "wrote 4 bytes between the elements of y, first at byte 28, row 1",
        ),
        (
            Outcome(TARGET, Status.RAN, damage=(Damage("x", "input", 1, 8, "inside", 1),)),
            Verdict.FAIL_INPUT_MODIFIED,
            "changed 1 byte of input x",
        ),
        (
            Outcome(TARGET, Status.RAN, unwritten=(Unwritten("y", 9, 2),)),
            Verdict.FAIL_UNWRITTEN,
            "2 of 21 elements of y hold what their memory held before, first y[1, 2]: never written, or made of that",
        ),
    ],
)
def test_what_is_wrong_apart_from_values(outcome: Outcome, verdict: Verdict, words: str) -> None:
    judgement = Judge(_case()).judge(outcome, Contract())
    assert judgement.verdict is verdict
    assert words in judgement.reason


def test_memory_damage_is_found_even_when_all_values_are_right() -> None:
    case = _case()
    outcome = Outcome(TARGET, Status.RAN, {"y": _correct(case).tobytes()})
    damaged = replace(outcome, damage=(Damage("y", "gap", 2, 0, "after", 4),))
    judge = Judge(case)
    assert judge.judge(outcome, Contract()).verdict is Verdict.PASS
    assert judge.judge(damaged, Contract()).verdict is Verdict.FAIL_MEMORY


def test_only_pass_gave_up_and_not_run_are_no_findings() -> None:
    silent = {verdict for verdict in Verdict if not verdict.is_finding}
    assert silent == {Verdict.PASS, Verdict.ORACLE_GAVE_UP, Verdict.NOT_RUN}


def test_what_there_is_no_time_to_decide_says_how_much_that_is() -> None:
    case, outcome = _case(), Outcome(TARGET, Status.RAN, {"y": _correct(_case()).tobytes()})
    judge = Judge(case)
    late = OutputCheck("y", "gave_up", (0, 0), 0.5, escalated=5000, late=4000)
    judge.oracle.known[Contract(), judge.bits(outcome)] = late
    said = judge.judge(outcome, Contract())
    words = "not decided in 60 s: 4,000 of 5,000 elements that take many digits"
    assert (said.verdict, said.reason) == (Verdict.ORACLE_GAVE_UP, words)


def test_invalid_input_must_be_rejected_and_nothing_else_counts() -> None:
    judge = Judge(_case())
    rejected = Outcome(TARGET, Status.REJECTED)
    assert judge.judge_invalid(rejected, "strides").verdict is Verdict.PASS
    taken = judge.judge_invalid(Outcome(TARGET, Status.RAN, {"y": _correct(_case()).tobytes()}), "strides (2, 1)")
    assert taken.verdict is Verdict.FAIL_ACCEPTED_INVALID
    assert "strides (2, 1)" in taken.reason
    spoilt = replace(rejected, damage=(Damage("x", "input", 0, 0, "inside", 4),))
    assert judge.judge_invalid(spoilt, "strides").verdict is Verdict.FAIL_INPUT_MODIFIED
    fault = Outcome(TARGET, Status.FAULT, fault=Fault("SIGSEGV", "x", 2, 0, "read"))
    assert judge.judge_invalid(fault, "strides").verdict is Verdict.FAIL_MEMORY
