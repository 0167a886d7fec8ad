"""Wrapping: breaking the lines of a report between words, for the width of a terminal."""

from __future__ import annotations

import os
import re
import shutil
import textwrap

_HARD = "\x00"
"""A space at which no line is broken."""
_TOGETHER = re.compile(
    r" +(?:=|!=|>=|<=|>|<|->) ?"
    r"|\b(?:kernelfuzz|python3 -m) [\w.-]+(?: --?[^\s;,]+(?: (?!-)[^\s;,]+)?| (?=\S*[-/._=\d'\"*A-Z])[^\s;,]+)*"
)
"""Matches what is kept on one line: a comparison, or a command with its verb, options, their values, and file names."""
_USUAL = 80
"""The columns of a usual terminal, and of output that goes to no terminal."""


def is_known(*, is_terminal: bool) -> bool:
    """Return whether lines have a known width: on a terminal, or if COLUMNS is set."""
    return is_terminal or os.environ.get("COLUMNS", "").isdigit()


def columns() -> int:
    """Return the width of the terminal in columns, from COLUMNS or the terminal itself."""
    return shutil.get_terminal_size((_USUAL, 24)).columns


def wrapped(line: str, width: int, hang: int = 4, before: int = 0) -> list[str]:
    """Return a line as lines of at most `width` columns, all but the first indented by `hang`; `before` columns of the
    first are taken. A longer word, such as a path or a command, is not broken."""
    if len(line) + before <= width:
        return [line]
    together = _TOGETHER.sub(lambda found: found[0].replace(" ", _HARD), "." * before + line)
    first, *rest = textwrap.wrap(
        together, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    ) or [""]  # fmt: skip
    return [each.replace(_HARD, " ") for each in (first[before:], *rest)]


def wrapped_text(text: str, width: int, hang: int = 4) -> str:
    """Return the text with each of its lines wrapped as by `wrapped`."""
    return "\n".join(part for line in text.split("\n") for part in wrapped(line, width, hang))
