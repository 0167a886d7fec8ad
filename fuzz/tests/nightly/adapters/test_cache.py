"""A damaged cache: whatever happened to whichever of its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.core.adapters.target import Target
from fuzz.tests.cover.adapters import test_build
from fuzz.tests.cover.adapters.test_build import a_folder, cut_off, emptied, garbage, one_bit, target

__all__ = ["target"]


@pytest.mark.parametrize("damage", [emptied, cut_off, garbage, one_bit, a_folder])
@pytest.mark.parametrize("what", ["worker", "parts", "entry"])
def test_each_damage_to_each_file(target: Target, own_cache: Path, what: str, damage: Callable[[Path], None]) -> None:
    test_build.test_a_damaged_cache_is_said_set_aside_and_made_anew(target, own_cache, what, damage)
