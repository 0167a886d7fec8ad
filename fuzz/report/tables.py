"""Plain tables, for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from fuzz.report.console import results


@dataclass(frozen=True)
class PlainTable:
    """Column names and rows of text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def print_table(table: PlainTable, *, markdown: bool) -> None:
    """Print to stdout."""
    if markdown:
        print(markdown_table(table))
        return
    printed = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(table.columns):
        printed.add_column(column, no_wrap=number == 0, overflow="fold")
    for row in table.rows:
        printed.add_row(*(Text(cell) for cell in row))
    results().print(printed)


def markdown_table(table: PlainTable) -> str:
    """The table in GitHub's Markdown."""
    lines = [_line(table.columns), _line(["---"] * len(table.columns)), *(_line(row) for row in table.rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
