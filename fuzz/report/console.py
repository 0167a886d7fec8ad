"""Consoles for results and for progress."""

from __future__ import annotations

from rich.console import Console

_FILE_WIDTH = 160
"""columns of a table that is not printed on a terminal."""


def results() -> Console:
    """stdout; wide lines when it goes to a file or a pipe. Honours NO_COLOR."""
    console = Console()
    return console if console.is_terminal else Console(width=_FILE_WIDTH)


def progress() -> Console:
    """stderr. Honours NO_COLOR."""
    return Console(stderr=True)
