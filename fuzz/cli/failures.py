"""Expected failures as one clear line, with the exit code that fits."""

from __future__ import annotations

import traceback

from fuzz.base.errors import UsageError
from fuzz.cli.exits import Exit


def describe(error: Exception) -> tuple[str, Exit]:
    """What to print on stderr for `error`, and the exit code."""
    # Imported here, where speed no longer matters: these modules bring in NumPy.
    from fuzz.adapters.build import BuildError
    from fuzz.adapters.pack import PackError
    from fuzz.base.attestation import AttestationError
    from fuzz.base.case import CaseError
    from fuzz.base.selection import SelectionError
    from fuzz.findings.state import StateError
    from fuzz.report.formats import FormatError
    from fuzz.transport.frames import FrameError
    from fuzz.uses.corpus.folder import CorpusError
    from fuzz.uses.gate.changes import ChangesError
    from fuzz.uses.gate.known import KnownError
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
