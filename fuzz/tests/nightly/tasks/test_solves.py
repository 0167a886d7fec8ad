"""Wrong solves from the right, by a factor, of least squares and pseudo-inverses are found in each of ten seeds."""

from __future__ import annotations

import pytest

import fuzz
from fuzz.tests.cover.tasks.test_check_solves import SHAPES, WRONG


@pytest.mark.parametrize("name", WRONG)
def test_wrong_solves_are_found_in_ten_of_ten_seeds(name: str) -> None:
    reference, kernel = WRONG[name]
    for seed in range(10):
        with pytest.raises(fuzz.CheckFailed):
            fuzz.check(kernel, reference=reference, oracle="replay", shapes=SHAPES[reference], seed=seed, max_cases=40)
