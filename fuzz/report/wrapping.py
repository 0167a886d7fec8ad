"""Wrapping: lines of a report broken between words, as wide as their reader's terminal."""

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
"""A comparison, and a command to type: its verb, its options with a word after each, and names of files and kernels."""
_USUAL = 80
"""The columns of a terminal that nobody has widened, and of output to no terminal."""


def is_known(*, is_terminal: bool) -> bool:
    """Return whether somebody sees lines of a known width: on a terminal, or of as many columns as COLUMNS says."""
    return is_terminal or os.environ.get("COLUMNS", "").isdigit()


def columns() -> int:
    """Return how wide the terminal is, as COLUMNS or the terminal itself says."""
    return shutil.get_terminal_size((_USUAL, 24)).columns


def wrapped(line: str, width: int, hang: int = 4, before: int = 0) -> list[str]:
    """Return a line as lines of at most `width` columns, the further ones indented by `hang`; `before` columns of the
    first one are taken. A longer word, such as a path or a command, is left whole."""
    if len(line) + before <= width:
        return [line]
    together = _TOGETHER.sub(lambda found: found[0].replace(" ", _HARD), "." * before + line)
    first, *rest = textwrap.wrap(
        together, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    ) or [""]  # fmt: skip
    return [each.replace(_HARD, " ") for each in (first[before:], *rest)]


def wrapped_text(text: str, width: int, hang: int = 4) -> str:
    """Return each line of a text so."""
    return "\n".join(part for line in text.split("\n") for part in wrapped(line, width, hang))
