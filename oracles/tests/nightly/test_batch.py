"""The screen of a batch says what the screens of its problems say one by one: many more problems."""

from __future__ import annotations

import pytest

from oracles.tests.common.batches import answers, batch, one_by_one
from oracles.tests.common.screens import FORWARD


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("op", "dtype"), [*FORWARD, ("rms_norm", "f16"), ("fused_add_rms_norm", "f32")])
def test_a_batch_says_what_is_said_of_each_problem_by_itself(op: str, dtype: str, seed: int) -> None:
    problems = batch(op, dtype, 8, 70, seed)
    for (problem, asked), found in zip(problems, answers(problems), strict=True):
        assert found == one_by_one(problem, asked), problem
