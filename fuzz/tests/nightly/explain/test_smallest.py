"""Shrinking where it is luck whether a case fails."""

from __future__ import annotations

from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.shrink.shrink import shrink, sweep
from fuzz.explain.trial.trial import Family, Trials
from fuzz.tests.common.hunting import failures, mutant, target_of


def test_orders_of_a_sum_that_differ_by_luck_are_shrunk_to_three_elements() -> None:
    """The shrunk case breaks the law that the one before it broke."""
    target = target_of(mutant("generic-order-by-place"))
    with WorkerPool([target]) as pool:
        case, judgement = failures(pool, target, 1)[0]
        trials = Trials(pool, target, Family.of(judgement))
        small = shrink(trials, case)
        again = trials.judge([small])[0]
        assert again is not None
        assert (again.verdict, again.law and again.law.name) == (Verdict.FAIL_LAW, "in_place")
        assert case.inputs["x"].layout.size > 4 * 3
        assert small.inputs["x"].layout.shape == (1, 3), "two numbers have one order"
        assert small.outputs["y"].alias == "x", "without it there is no law to break"
        assert sweep(trials, small).smallest
