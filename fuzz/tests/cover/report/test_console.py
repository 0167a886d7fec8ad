"""What is printed is shown as it is, a line as one line."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
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


def test_a_long_line_of_progress_is_broken_between_words_where_somebody_sees_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    console.progress().print("word " * 100)
    assert len(capsys.readouterr().err.splitlines()) == 1
    monkeypatch.setenv("COLUMNS", "80")
    console.progress().print("word " * 100)
    assert {len(line) for line in capsys.readouterr().err.splitlines()[:-1]} <= {78, 79}


def test_the_first_line_of_a_failure_is_red_where_a_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "FAIL  mine  [bold]wrong[/bold]\n  x = [[1]]\n  next: ..."
    first, *rest = text.splitlines()
    for no_color, style in (("", "1;31"), ("1", "1")):
        monkeypatch.setenv("NO_COLOR", no_color)
        out = io.StringIO()
        terminal = Console(file=out, force_terminal=True, color_system="standard", markup=False, highlight=False)
        console.print_failure(terminal, text)
        assert out.getvalue().splitlines() == [f"\x1b[{style}m{first}\x1b[0m", *rest]


def test_targets_that_did_not_run_are_counted_by_their_reason() -> None:
    reasons = {"a": "no gcc", "b": "no qemu", "c": "no gcc", "d": "no gcc"}
    assert not_run_lines(reasons) == ["NOT_RUN a and 2 more: no gcc", "NOT_RUN b: no qemu"]
