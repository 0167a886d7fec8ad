"""No door says that it passed where it did not see what it was asked to judge."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuzz.report.console import PlainTable, markdown_table
from fuzz.tests.common.doors import ROWS, Row, held
from fuzz.tests.conftest import CHECKOUT

_QUICK = (
    "run: nothing ran",
    "gate: nothing ran",
    "check: nothing ran",
    "repro: nothing ran",
    "gate: git fails",
    "run: half ran",
    "gate: nothing decided",
    "judge: nothing decided",
    "exported program: nothing ran",
)


@pytest.mark.some(2)
@pytest.mark.parametrize("row", [row for row in ROWS if str(row) in _QUICK], ids=str)
def test_a_door_passes_only_what_it_has_judged(row: Row, tmp_path: Path) -> None:
    held(row, tmp_path)


def test_the_page_has_the_table_of_doors() -> None:
    page = (CHECKOUT / "fuzz" / "docs" / "verdicts.md").read_text()
    [shown] = re.findall(r"<!-- doors -->\n(.*)\n<!-- /doors -->", page, re.DOTALL)
    table = PlainTable(("command", "what happens", "exit code", "what it says"), [row.cells for row in ROWS])
    assert shown == markdown_table(table)
