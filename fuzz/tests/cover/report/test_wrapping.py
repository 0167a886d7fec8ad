"""Lines are broken between words, and facts stay together."""

from __future__ import annotations

import io
import re
from typing import cast

import pytest
from rich.console import Console

from fuzz.cli.exits import leave
from fuzz.core.base.dtypes import shortest
from fuzz.core.base.errors import UsageError
from fuzz.report.console import print_lines
from fuzz.report.wrapping import columns, wrapped


@pytest.mark.parametrize(
    ("line", "width", "before", "lines"),
    [
        ("short", 5, 0, ["short"]),
        ("  one two three", 9, 0, ["  one two", "    three"]),
        ("one two", 8, 4, ["one", "    two"]),
        ("x is = 1, eps = 2  ->", 12, 0, ["x is = 1,", "    eps = 2  ->"]),
        ("see /a/path/that/is/long now", 10, 0, ["see", "    /a/path/that/is/long", "    now"]),
    ],
)
def test_a_line_is_broken_between_words_but_at_no_relation(
    line: str, width: int, before: int, lines: list[str]
) -> None:
    assert wrapped(line, width, before=before) == lines


def test_an_error_is_broken_between_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*, standalone_mode: bool) -> None:
        raise UsageError("a message that is longer than a terminal of forty columns is wide")

    monkeypatch.setenv("COLUMNS", "40")
    with pytest.raises(SystemExit):
        leave(failing)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["kernelfuzz: a message that is longer", "    than a terminal of forty columns is", "    wide"]


def test_a_warning_of_a_night_is_broken_between_words() -> None:
    shown = Console(file=io.StringIO(), force_terminal=True, no_color=True, width=40)
    print_lines(shown, ["it goes on: kernelfuzz nightly --report-only --state STATE"], "yellow")
    said = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in cast(io.StringIO, shown.file).getvalue().splitlines()]
    assert said == ["it goes on:", "    kernelfuzz nightly --report-only --state STATE"]


def test_columns_say_how_wide_the_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "61")
    assert columns() == 61


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9.999999747378752e-06, "1e-05"), (0.10000000149011612, "0.1"), (100.0, "100"), (1.0, "1"), (0.3, "0.3"),
        (3.4028234663852886e38, "3.4028235e+38"), (1e300, "1e+300"), (float("inf"), "inf"),
    ],
)  # fmt: skip
def test_a_parameter_is_told_in_the_digits_that_are_it_again_in_float32(value: float, text: str) -> None:
    assert shortest(value) == text
