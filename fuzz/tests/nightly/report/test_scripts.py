"""Standalone programs of cases whose tensors overlap in every way."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.tests.common.programs import assert_overlap_is_shown


@pytest.mark.parametrize("turn", [0, 1, 2, 3, 5, 6, 7, 8, 9])  # the others lie a row back, where nothing is read late
def test_an_overlap_lies_in_the_program_as_it_does_in_the_case(tmp_path: Path, turn: int) -> None:
    assert_overlap_is_shown(tmp_path, turn)
