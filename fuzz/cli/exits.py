"""The end of a command: its exit code, and expected errors as one line."""

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

_EXTRAS = ("jax", "onnx", "torch", "triton")
"""The packages that only some commands need."""
_TYPER_INTERRUPTED = 130
"""The code that Typer returns for a KeyboardInterrupt."""


def leave(app: Callable[..., object]) -> None:
    """Run a command line, and end the process with the right code; an expected failure is printed as one clear line."""
    atexit.register(_end_quietly)  # registered first, so that it runs last
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
    """Close stderr, since everything has been printed. While Python shuts down, libraries may still complain about
    their own objects, as Triton does about those that an error has kept alive."""
    # Otherwise Python would look for cycles in all objects, which takes half a second if torch was imported.
    gc.freeze()
    with suppress(OSError, ValueError):  # for a full disk or a pipe without a reader, which Python reports itself
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _tell_end(code: Exit, message: str) -> None:
    """Print the error message, if any; for a program, write the event of the ending in any case."""
    if os.environ.get("KERNELFUZZ_EVENTS"):
        from fuzz.report import events

        events.write(events.Ended(code, MEANINGS[code], message))
    elif message:
        from fuzz.report.wrapping import columns, is_known, wrapped_text

        # A program reads whole lines. An internal error is printed unchanged, since its reader is us.
        whole = code is Exit.INTERNAL or not is_known(is_terminal=sys.stderr.isatty())
        print(message if whole else wrapped_text(message, columns()), file=sys.stderr)


def describe(error: Exception) -> tuple[str, Exit]:
    """Return the text for stderr, and the exit code, for an exception."""
    # Imported here, where speed no longer matters: these modules bring in NumPy.
    from fuzz.core.base.errors import AwayError, InternalError, UsageError
    from fuzz.core.base.text import printable_lines
    from oracles.formula.trace import FormulaError
    from oracles.operand import OpError
    from oracles.summation import NumericsError
    from oracles.truth import OracleDisagreement

    if hasattr(error, "format_message"):  # a usage error; typer's copy of click's classes is private
        context = getattr(error, "ctx", None)
        verb = context.command_path if context is not None else "kernelfuzz"
        said = " ".join(error.format_message().split()).replace("Value error, ", "")  # pydantic's words
        return printable_lines(f"kernelfuzz: {said or 'a command is missing'}\nTry: {verb} --help"), Exit.USAGE
    if isinstance(error, (UsageError, NumericsError, OpError, FormulaError, AwayError)):
        return printable_lines(f"kernelfuzz: {error}"), Exit.INTERNAL if isinstance(error, AwayError) else Exit.USAGE
    if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        return f"kernelfuzz: this needs {error.name}: pip install {error.name}", Exit.USAGE
    if isinstance(error, (InternalError, OracleDisagreement)):
        return printable_lines(f"kernelfuzz: internal error: {error}"), Exit.INTERNAL
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return printable_lines(f"kernelfuzz: {where}{error.strerror or error}"), Exit.INTERNAL
    said = printable_lines("".join(traceback.format_exception(error)))
    ending = "kernelfuzz: internal error: this is a bug of kernelfuzz, not of your kernel; please report the text above"
    return f"{said}\n{ending}", Exit.INTERNAL
