"""Errors that are the user's to mend. Each is shown as one line; the exit code is that of a usage error."""

from __future__ import annotations


class UsageError(Exception):
    """Something that the user asked for cannot be done. The message says what to do."""
