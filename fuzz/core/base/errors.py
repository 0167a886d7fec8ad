"""Errors that end a command. Each is shown as one line, and its class decides the exit code."""

from __future__ import annotations

_INSTALLABLE = frozenset({"jax", "numpy", "torch", "triton"})
"""Packages that are installed under the name by which they are imported."""


class UsageError(Exception):
    """The user asked for something impossible, but can fix it. The message says how."""


class AwayError(Exception):
    """A program that this one depends on no longer answers. The message says which one."""


class InternalError(Exception):
    """A process of this package broke its contract, so its answers may not be judged. An internal error."""


def error_line(error: BaseException) -> str:
    """Return an error raised by a user's file, in one line; for a missing package, the command that installs it."""
    if isinstance(error, ModuleNotFoundError) and error.name in _INSTALLABLE:
        return f"{error.name} is not installed: pip install {error.name}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
