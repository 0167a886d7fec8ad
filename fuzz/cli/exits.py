"""How a command ends: exit codes, the same for every verb, and errors as one line."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuzz.findings.tally import Tally


class Exit(IntEnum):
    """What the process exit code means."""

    OK = 0
    FINDINGS = 1
    INTERRUPTED = 2
    INTERNAL = 3
    USAGE = 4
    NOTHING_RAN = 5
    MOSTLY_NOT_JUDGED = 6
    """Nothing is wrong with the runs that were judged, and most runs or kernels were not."""
    REQUIRED_NOT_RUN = 10
    ORACLE_GAVE_UP = 11
    CANNOT_JUDGE = 125
    """It tells `git bisect run` to skip this commit."""


MEANINGS: Mapping[Exit, str] = {
    Exit.OK: "nothing found",
    Exit.FINDINGS: "findings, or a kernel that cannot be built or started",
    Exit.INTERRUPTED: "interrupted (Ctrl-C or SIGTERM) before anything was found",
    Exit.INTERNAL: "internal error, such as an oracle that contradicts itself (findings are still reported), or "
    "records that could not be written",
    Exit.USAGE: "usage error or broken case file: one line says what to correct",
    Exit.NOTHING_RAN: "nothing ran; from `doctor`: nothing can run",
    Exit.MOSTLY_NOT_JUDGED: "all runs that were judged are right, but most runs were not judged, or most "
    "kernels had no turn; the last line says why",
    Exit.REQUIRED_NOT_RUN: "a required target did not run (`--require`)",
    Exit.ORACLE_GAVE_UP: "the oracle could not decide on some element",
    Exit.CANNOT_JUDGE: "`repro` cannot tell whether the case fails: its kernel cannot be built or loaded, is not "
    "among the targets, or did not run; it hangs, though it was found to fail in another way; or the oracle gave up",
}
"""What each says, in the words of `kernelfuzz explain` and of the page of verdicts."""
_TYPER_INTERRUPTED = 130
"""Typer returns this for a KeyboardInterrupt."""


def exit_of(tally: Tally, *, failing: bool, missing: bool, interrupted: bool = False, errors: bool = False) -> Exit:
    """Errors of ours first, for they shake everything else; then findings, among them kernels that cannot be built or
    started; then what was required and did not run; then what could not be judged."""
    if errors:
        return Exit.INTERNAL
    if failing or tally.broken:
        return Exit.FINDINGS
    if missing:
        return Exit.REQUIRED_NOT_RUN
    if interrupted:
        return Exit.INTERRUPTED
    if tally.gave_up:
        return Exit.ORACLE_GAVE_UP
    if tally.judged:
        return Exit.MOSTLY_NOT_JUDGED if tally.is_mostly_unjudged else Exit.OK
    return Exit.NOTHING_RAN


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
        print(message, file=sys.stderr)


def describe(error: Exception) -> tuple[str, Exit]:
    """What to print on stderr for `error`, and the exit code."""
    # Imported here, where speed no longer matters: these modules bring in NumPy.
    from fuzz.base.errors import AwayError, InternalError, UsageError
    from fuzz.base.text import printable_lines
    from oracles.declared import OpError
    from oracles.formula.trace import FormulaError
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
