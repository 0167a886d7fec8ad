"""Wrapping: lines of a report as wide as who reads them sees them, broken between words."""

from __future__ import annotations

import re
import shutil
import textwrap

_HARD = "\x00"
"""A space at which no line is broken."""
_USUAL = 80
"""The columns of a terminal that nobody has widened, and of what is none."""


def columns() -> int:
    """Return how wide the terminal is, as COLUMNS or the terminal itself says."""
    return shutil.get_terminal_size((_USUAL, 24)).columns


def wrapped(line: str, width: int, hang: int = 4, before: int = 0) -> list[str]:
    """Return a line as lines of at most so many columns, the further ones indented by `hang`. Some columns of the first
    one are taken by what stands `before` it. A word that is longer is left whole, as a path is."""
    if len(line) + before <= width:
        return [line]
    together = re.sub(r" +(=|!=|>=|<=|>|<|->) ?", lambda found: found[0].replace(" ", _HARD), "." * before + line)
    first, *rest = textwrap.wrap(
        together, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    ) or [""]  # fmt: skip
    return [each.replace(_HARD, " ") for each in (first[before:], *rest)]


def wrapped_text(text: str, width: int, hang: int = 4) -> str:
    """Return each line of a text so."""
    return "\n".join(part for line in text.split("\n") for part in wrapped(line, width, hang))
