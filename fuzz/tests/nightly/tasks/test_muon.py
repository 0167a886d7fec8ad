"""Wrong steps of Muon are found in each of ten seeds."""

from __future__ import annotations

import pytest

import fuzz
from fuzz.tests.cover.tasks.test_muon import WRONG, checked


@pytest.mark.parametrize("name", WRONG)
def test_wrong_steps_are_found_in_ten_of_ten_seeds(name: str) -> None:
    reference, kernel = WRONG[name]
    for seed in range(10):
        with pytest.raises(fuzz.CheckFailed):
            checked(kernel, reference, seed)
