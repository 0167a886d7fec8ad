"""What counts as failing in the same way."""

from __future__ import annotations

from dataclasses import replace

from fuzz.core.base.outcome import Outcome, Status, Unwritten
from fuzz.core.judge.judge import Judge
from fuzz.explain.trial.trial import Family
from fuzz.tests.common.hunting import GENERIC, given_case


def test_an_exception_and_what_is_not_written_are_two_failures_and_the_text_is_kept() -> None:
    judge = Judge(given_case((2, 9), 1))
    raised = judge.judge(Outcome("one", Status.RAISED, detail="RuntimeError: too long"), GENERIC.contract)
    died = judge.judge(Outcome("one", Status.DIED, detail="signal 11"), GENERIC.contract)
    left = judge.judge(Outcome("one", Status.RAN, unwritten=(Unwritten("y", 0, 1),)), GENERIC.contract)
    assert raised.reason == "RuntimeError: too long"
    assert Family.of(raised).key != Family.of(left).key == Family.of(died).key, "what a stray access hits is chance"
    for one, other in ((raised, left), (left, raised), (died, raised)):
        assert not replace(Family.of(one), wide=True).holds(other)
        assert replace(Family.of(one), wide=True).holds(one)
