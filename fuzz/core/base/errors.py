"""Errors that end a command. Each is shown as one line; its class decides the exit code."""

from __future__ import annotations


class UsageError(Exception):
    """Something that the user asked for cannot be done, and the user can mend it. The message says what to do."""


class AwayError(Exception):
    """Another program that this one cannot do without does not answer any longer. The message says which."""


class InternalError(Exception):
    """One of our own processes broke its contract: nothing that it said may be judged."""
