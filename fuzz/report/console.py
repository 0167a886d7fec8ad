"""Consoles for results and for progress, and plain tables for a terminal or for Markdown. Text is printed unchanged: a
name such as 'numpy[test]' is not markup, ':bug:' is not a picture, and numbers are not coloured. Both consoles honour
NO_COLOR."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import IO, Any, cast

from rich.console import Console, RenderableType
from rich.status import Status
from rich.table import Table
from rich.text import Text

from fuzz.report.wrapping import is_known, wrapped_text

PLAIN_INTERVAL = 10.0
"""Seconds between two lines of a log: a person can read six a minute."""
_FILE_WIDTH = 160
"""The columns of a table that is not printed on a terminal: enough for a target's id and its worst case on one line."""


@dataclass(frozen=True)
class PlainTable:
    """Column names and rows of text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class _ByWords(Console):
    """A console that breaks long lines between words on a terminal. With `soft_wrap` lines are not broken, as for JSON.
    In a log, the present activity is printed too, if nothing else was for a while."""

    _last = math.inf

    def status(self, status: RenderableType, **options: Any) -> Status:
        """Show the present activity, as `Console.status` does; in a log, see `_Logged`."""
        if self.is_terminal:
            return super().status(status, **options)
        self._last = min(self._last, time.monotonic())
        return _Logged(status, console=self)

    def tell(self, line: str) -> None:
        """Print a line, unless one was printed a moment ago."""
        if line and time.monotonic() - self._last >= PLAIN_INTERVAL:
            self.print(line)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as `Console.print` does."""
        self._last = time.monotonic()
        if objects and all(isinstance(each, str) for each in objects) and not options.get("soft_wrap"):
            objects, options = tuple(wrapped_text(each, room(self)) for each in objects), {**options, "soft_wrap": True}
        super().print(*objects, **options)


class _Logged(Status):
    """The present activity in a log: a line when it begins or changes, if nothing else was printed for a while."""

    def start(self) -> None:
        """Print the activity."""
        self._tell()

    def update(self, status: RenderableType | None = None, **options: Any) -> None:
        """Print the new activity."""
        self.status = self.status if status is None else status
        self._tell()

    def stop(self) -> None:
        """Do nothing: a log needs no line for the end."""

    def _tell(self) -> None:
        if isinstance(self.console, _ByWords):
            self.console.tell(str(self.status))


def results() -> Console:
    """Return the console of stdout. Tables are wide if it is no terminal and COLUMNS does not set its width."""
    console = _ByWords(highlight=False, markup=False, emoji=False)
    if is_known(is_terminal=console.is_terminal):
        return console
    return _ByWords(highlight=False, markup=False, emoji=False, width=_FILE_WIDTH)


def progress() -> Console:
    """Return the console of stderr. If events are wanted, each line becomes an event."""
    if os.environ.get("KERNELFUZZ_EVENTS"):
        from fuzz.report.events import Notes

        return Console(file=cast(IO[str], Notes()), highlight=False, markup=False, emoji=False, soft_wrap=True)
    return _ByWords(stderr=True, highlight=False, markup=False, emoji=False)


def silent() -> Console:
    """Return a console that shows nothing, and does not disturb what others print."""
    return Console(quiet=True, force_terminal=False)


def bare_table() -> Table:
    """Return a `rich` table without lines around its cells, from which every printed table is made."""
    return Table(box=None, pad_edge=False, header_style="bold")


def print_table(table: PlainTable, *, markdown: bool) -> None:
    """Print a table to stdout."""
    if markdown:
        print(markdown_table(table))
        return
    printed = bare_table()
    for number, column in enumerate(table.columns):
        printed.add_column(column, no_wrap=number == 0, overflow="fold")
    for row in table.rows:
        printed.add_row(*(Text(cell) for cell in row))
    results().print(printed)


def print_tables(*tables: PlainTable, markdown: bool) -> None:
    """Print the tables that have rows to stdout, an empty line after each."""
    for table in tables:
        if table.rows:
            print_table(table, markdown=markdown)
            results().print()


def room(console: Console) -> int:
    """Return the number of columns of a line: those of the terminal, or of COLUMNS; a file has no limit."""
    return console.width if is_known(is_terminal=console.is_terminal) else sys.maxsize


def print_lines(console: Console, lines: Iterable[str], style: str = "", hang: int = 4) -> None:
    """Print lines, and break long ones between words as a terminal would."""
    for line in lines:
        console.print(wrapped_text(line, room(console), hang), style=style, soft_wrap=True)


def print_failure(console: Console, text: str) -> None:
    """Print the text of a failure. Its first line, which says what is wrong, is red on a terminal with colours."""
    first, *rest = text.split("\n", 1)
    console.print(first, style="bold red", soft_wrap=True)
    for lines in rest:
        console.print(lines, soft_wrap=True)


def markdown_table(table: PlainTable) -> str:
    """Return the table in GitHub's Markdown."""
    return "\n".join(map(_line, (table.columns, ["---"] * len(table.columns), *table.rows)))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escape(cell, quote=False).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
