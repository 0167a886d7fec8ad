"""No door says that it passed where it did not see what it was asked to judge: those that take their time."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.tests.common.doors import ROWS, Row, held


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_door_passes_only_what_it_has_judged(row: Row, tmp_path: Path) -> None:
    held(row, tmp_path)
