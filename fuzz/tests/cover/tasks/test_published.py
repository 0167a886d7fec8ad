"""Every published exploit that is a matter of correctness is there as a solution."""

from __future__ import annotations

from fuzz.tests.common.exploits import ANY_VALUES, NUMPY, PUBLISHED
from fuzz.tests.common.exploits_torch import CUDA, TORCH
from fuzz.tests.common.solutions import CHEATS


def test_each_published_exploit_is_a_solution_and_each_solution_is_one_of_them() -> None:
    known = {**CHEATS, **NUMPY, **TORCH, **CUDA, **ANY_VALUES}
    tried = {name for names in PUBLISHED.values() for name in names}
    assert tried <= {*known}, tried - {*known}
    assert {*known} - {*CHEATS} <= tried, "none is tried that nobody has published"
    assert len(PUBLISHED) == 32
