"""What is printed is shown as it is, a line as one line."""

from __future__ import annotations

import pytest
from rich.table import Table

from fuzz.report import console
from fuzz.report.totals import not_run_lines

REMEDY = "pip install 'kernelfuzz[torch]'"


def test_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("why")
    table.add_row(REMEDY)
    for printed in (REMEDY, table):
        console.results().print(printed)
        console.progress().print(printed)
    said = capsys.readouterr()
    assert (said.out.count(REMEDY), said.err.count(REMEDY)) == (2, 2)


def test_a_long_line_of_progress_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    console.progress().print("word " * 100)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_targets_that_did_not_run_are_counted_by_their_reason() -> None:
    reasons = {"a": "no gcc", "b": "no qemu", "c": "no gcc", "d": "no gcc"}
    assert not_run_lines(reasons) == ["NOT_RUN a and 2 more: no gcc", "NOT_RUN b: no qemu"]
