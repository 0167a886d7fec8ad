"""Errors that end a command. Each is shown as one line; its class decides the exit code."""

from __future__ import annotations

_INSTALLABLE = frozenset({"jax", "numpy", "torch", "triton"})
"""Packages that are installed by the name by which they are imported."""


class UsageError(Exception):
    """Something that the user asked for cannot be done, and the user can mend it. The message says what to do."""


class AwayError(Exception):
    """Another program that this one cannot do without does not answer any longer. The message says which."""


class InternalError(Exception):
    """One of our own processes broke its contract: nothing that it said may be judged."""


def error_line(error: BaseException) -> str:
    """Return in one line what the file of a user raised; of a package that is missing, the command that installs it."""
    if isinstance(error, ModuleNotFoundError) and error.name in _INSTALLABLE:
        return f"{error.name} is not installed: pip install {error.name}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
