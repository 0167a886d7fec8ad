"""What is printed is shown as it is, a line as one line."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from rich.table import Table

from fuzz.core.base.text import counted
from fuzz.report import console
from fuzz.report.totals import not_run_lines
from fuzz.tests.conftest import CHECKOUT

NEVER_ONE = ("kernels fail", "FULL:,", "repro {path} runs it")
"""Lines with a plural noun after a number that is never 1, or after no number."""
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


def test_what_is_being_done_is_a_line_of_a_log_once_nothing_was_printed_for_a_while(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, now = console.progress(), [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with screen.status("reading ...") as shown:
        shown.update("reading more ...")
        now[0] += console.PLAIN_INTERVAL
        shown.update("replaying: 8 of 48 cases ...")
        shown.update("replaying: 16 of 48 cases ...")
    now[0] += console.PLAIN_INTERVAL
    with screen.status("explaining ..."):
        pass
    assert capsys.readouterr().err == "replaying: 8 of 48 cases ...\nexplaining ...\n"
    with console.silent().status("reading ..."):
        now[0] += console.PLAIN_INTERVAL
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("number", "one", "said"),
    [(0, "op", "0 ops"), (1, "op", "1 op"), (1, "kind of failure", "1 kind of failure"), (2000, "case", "2,000 cases")],
)
def test_a_count_agrees_with_its_noun(number: int, one: str, said: str) -> None:
    assert counted(number, one) == said


def test_a_count_agrees_with_a_verb() -> None:
    assert [counted(number, "case passes", "cases pass") for number in (1, 2)] == ["1 case passes", "2 cases pass"]


def test_no_count_is_printed_before_a_fixed_plural() -> None:
    """Where a count may be 1, `counted` writes its noun; `NEVER_ONE` has the others."""
    files = [*(CHECKOUT / "fuzz" / "report").glob("*.py"), *(CHECKOUT / "fuzz" / "cli").glob("*.py")]
    plural = re.compile(r"\{[^{}]*\} (?:cases|elements|runs|judged runs|kernels|ops|kinds|findings|bugs|mutants)\b")
    found = [line.strip() for path in files for line in path.read_text().splitlines() if plural.search(line)]
    assert [line for line in found if not any(each in line for each in NEVER_ONE)] == []
