"""The screen of a batch says what the screens of its problems say one by one, bit for bit."""

from __future__ import annotations

import pytest

from oracles.tests.common.batches import answers, batch, one_by_one
from oracles.tests.common.screens import FORWARD


@pytest.mark.parametrize(("op", "dtype"), [*FORWARD, ("rms_norm", "f16"), ("fused_add_rms_norm", "f32")])
def test_a_batch_says_what_is_said_of_each_problem_by_itself(op: str, dtype: str) -> None:
    problems = batch(op, dtype, 4, 12, seed=21)
    decided = 0
    for (problem, asked), found in zip(problems, answers(problems), strict=True):
        expected = one_by_one(problem, asked)
        for (numerics, received), mine, theirs in zip(asked, found, expected, strict=True):
            assert mine == theirs, f"{numerics} {problem} {received.values}"[:1500]
            decided += mine is not None
    assert decided > (100 if dtype != "f64" else -1), decided
    print(decided, sum(len(a) for _, a in problems))
