"""Expected failures as one clear line, with the exit code that fits."""

from __future__ import annotations

import traceback

import typer
from fuzz.case import CaseError
from fuzz.cli.exits import Exit
from fuzz.pack import PackError
from fuzz.select import SelectionError


def describe(error: Exception) -> tuple[str, Exit]:
    """What to print on stderr for `error`, and the exit code."""
    if hasattr(error, "format_message"):  # a usage error; typer has its own copy of click's classes, which is private
        return f"kernelfuzz: {error.format_message()}\nTry: kernelfuzz --help", Exit.USAGE
    if isinstance(error, typer.Abort):
        return "kernelfuzz: aborted", Exit.INTERRUPTED
    if isinstance(error, (CaseError, PackError, SelectionError)):
        return f"kernelfuzz: {error}", Exit.USAGE
    if type(error).__name__ == "BuildError":
        return f"kernelfuzz: {error}", Exit.USAGE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"kernelfuzz: {where}{error.strerror or error}", Exit.INTERNAL
    return (
        "".join(traceback.format_exception(error))
        + "kernelfuzz: internal error: this is a bug of kernelfuzz, not of your kernel; please report the text above",
        Exit.INTERNAL,
    )
