"""Consoles for results and for progress. What is printed is shown as it is: names such as 'kernelfuzz[torch]' are no
markup, and numbers have no colours of their own. Both honour NO_COLOR."""

from __future__ import annotations

from rich.console import Console

_FILE_WIDTH = 160
"""columns of a table that is not printed on a terminal."""


def results() -> Console:
    """stdout; wide tables when it goes to a file or a pipe."""
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=_FILE_WIDTH)


def progress() -> Console:
    """stderr; each line is one line."""
    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
