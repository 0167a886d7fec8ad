"""The screen passes nothing that the enclosures do not, under a third of all contracts for each recipe."""

from __future__ import annotations

import pytest

from oracles.tests.common.adversary import RECIPES
from oracles.tests.common.screens import FORWARD, screens_agree


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("op", "dtype"), FORWARD)
def test_what_the_screen_passes_conforms_and_is_as_far_off_as_the_enclosures_say(
    op: str, recipe: str, dtype: str
) -> None:
    screens_agree(op, recipe, dtype, 3)
