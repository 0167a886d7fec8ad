"""Errors that end a command. Each is shown as one line; its class decides the exit code."""

from __future__ import annotations

_INSTALLABLE = frozenset({"jax", "numpy", "torch", "triton"})
"""Packages whose name for installing is the name for importing."""


class UsageError(Exception):
    """Something that the user asked for cannot be done, but the user can fix it. The message says how."""


class AwayError(Exception):
    """A program that this one depends on no longer answers. The message says which."""


class InternalError(Exception):
    """One of our own processes broke its contract: nothing that it said may be judged. An internal error."""


def error_line(error: BaseException) -> str:
    """Return in one line what the file of a user raised; of a package that is missing, the command that installs it."""
    if isinstance(error, ModuleNotFoundError) and error.name in _INSTALLABLE:
        return f"{error.name} is not installed: pip install {error.name}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
