"""What was found out about a row."""

from __future__ import annotations

from dataclasses import dataclass

ABSENT = "not installed"
"""The result of a row whose library is not here."""


@dataclass(frozen=True)
class ShippedAnswer:
    """What was found out about one row."""

    key: str
    result: str
    said: str = ""
    """What is wrong, or why nothing is judged."""
    by: str = ""
    """What judged it: a formula or a replay."""
    whole: str = ""
    """The whole report of a failure."""
