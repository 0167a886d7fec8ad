"""How a command ends: its exit code, and errors as one line."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from fuzz.core.base.exits import MEANINGS, Exit

__all__ = ["MEANINGS", "Exit", "describe", "leave"]

_TYPER_INTERRUPTED = 130
"""Typer returns this for a KeyboardInterrupt."""


def leave(app: Callable[..., object]) -> None:
    """Run a command line, and end the process: every expected failure becomes one clear line and the right code."""
    atexit.register(_end_quietly)  # the first of all, so that it runs last
    message = ""
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        code = _TYPER_INTERRUPTED
    except Exception as error:
        message, code = describe(error)
    if code == _TYPER_INTERRUPTED:
        message, code = "kernelfuzz: interrupted", Exit.INTERRUPTED
    _tell_end(Exit(code) if isinstance(code, int) and code in MEANINGS else Exit.OK, message)
    sys.exit(code if isinstance(code, int) else Exit.OK)


def _end_quietly() -> None:
    """Everything is said: what libraries say of their own objects while Python takes itself apart, as Triton does of
    those that an error has left alive, is no message of ours."""
    # Python would look for cycles in all that there is: where torch was imported that takes half a second.
    gc.freeze()
    with suppress(OSError, ValueError):  # of a full disk, or a pipe that nobody reads: Python says that in the end
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _tell_end(code: Exit, message: str) -> None:
    """Say what went wrong, or, to a program, how it ended in any case."""
    if os.environ.get("KERNELFUZZ_EVENTS"):
        from fuzz.report import events

        events.write(events.Ended(code, MEANINGS[code], message))
    elif message:
        from fuzz.report.wrapping import columns, is_known, wrapped_text

        # A program reads a line; a terminal would break it within words. What a bug of ours left is read by us.
        whole = code is Exit.INTERNAL or not is_known(is_terminal=sys.stderr.isatty())
        print(message if whole else wrapped_text(message, columns()), file=sys.stderr)


def describe(error: Exception) -> tuple[str, Exit]:
    """What to print on stderr for `error`, and the exit code."""
    # Imported here, where speed no longer matters: these modules bring in NumPy.
    from fuzz.core.base.errors import AwayError, InternalError, UsageError
    from fuzz.core.base.text import printable_lines
    from oracles.formula.trace import FormulaError
    from oracles.operand import OpError
    from oracles.summation import NumericsError
    from oracles.truth import OracleDisagreement

    if hasattr(error, "format_message"):  # a usage error; typer has its own copy of click's classes, which is private
        context = getattr(error, "ctx", None)
        verb = context.command_path if context is not None else "kernelfuzz"
        said = " ".join(error.format_message().split()).replace("Value error, ", "")  # pydantic's words
        return printable_lines(f"kernelfuzz: {said or 'a command is missing'}\nTry: {verb} --help"), Exit.USAGE
    if isinstance(error, (UsageError, NumericsError, OpError, FormulaError)):
        return printable_lines(f"kernelfuzz: {error}"), Exit.USAGE
    if isinstance(error, AwayError):
        return printable_lines(f"kernelfuzz: {error}"), Exit.INTERNAL
    if isinstance(error, (InternalError, OracleDisagreement)):
        return printable_lines(f"kernelfuzz: internal error: {error}"), Exit.INTERNAL
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return printable_lines(f"kernelfuzz: {where}{error.strerror or error}"), Exit.INTERNAL
    said = printable_lines("".join(traceback.format_exception(error)))
    ending = "kernelfuzz: internal error: this is a bug of kernelfuzz, not of your kernel; please report the text above"
    return f"{said}\n{ending}", Exit.INTERNAL
