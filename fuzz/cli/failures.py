"""Expected failures as one clear line, with the exit code that fits."""

from __future__ import annotations

import traceback

from fuzz.cli.exits import Exit


class UsageError(Exception):
    """Something that the user asked for cannot be done. The message says what to do."""


def describe(error: Exception) -> tuple[str, Exit]:
    """What to print on stderr for `error`, and the exit code."""
    # Imported here, where speed no longer matters: these modules bring in NumPy.
    from fuzz.case import CaseError
    from fuzz.corpus.folder import CorpusError
    from fuzz.execute.attestation import AttestationError
    from fuzz.execute.build import BuildError
    from fuzz.execute.frames import FrameError
    from fuzz.gate.changes import ChangesError
    from fuzz.gate.known import KnownError
    from fuzz.pack import PackError
    from fuzz.report.formats import FormatError
    from fuzz.select import SelectionError
    from fuzz.store.state import StateError
    from oracles.numerics import NumericsError
    from oracles.truth import OracleDisagreement

    if hasattr(error, "format_message"):  # a usage error; typer has its own copy of click's classes, which is private
        context = getattr(error, "ctx", None)
        verb = context.command_path if context is not None else "kernelfuzz"
        said = " ".join(error.format_message().split()).replace("Value error, ", "")  # pydantic's words
        return f"kernelfuzz: {said}\nTry: {verb} --help", Exit.USAGE
    usage = (UsageError, ChangesError, FormatError, KnownError, SelectionError)
    broken = (CaseError, CorpusError, PackError, StateError, BuildError, NumericsError)
    if isinstance(error, (*usage, *broken)):
        return f"kernelfuzz: {error}", Exit.USAGE
    if isinstance(error, (OracleDisagreement, AttestationError, FrameError)):
        return f"kernelfuzz: internal error: {error}", Exit.INTERNAL
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"kernelfuzz: {where}{error.strerror or error}", Exit.INTERNAL
    return (
        "".join(traceback.format_exception(error))
        + "kernelfuzz: internal error: this is a bug of kernelfuzz, not of your kernel; please report the text above",
        Exit.INTERNAL,
    )
