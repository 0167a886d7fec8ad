"""What a nightly state is made of, and what can be wrong with it."""

from __future__ import annotations

from pathlib import Path

from fuzz.base.errors import UsageError


class StateError(UsageError):
    """A state that cannot be used as it is. The message says what to do."""


DATABASE, FINDINGS, PAGE = "state.sqlite", "findings", "report.html"
"""what a state folder holds."""


def make_state(state: Path) -> None:
    """Make the folder of a state where there is none. Raises StateError."""
    try:
        (state / FINDINGS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"--state {state}: cannot be written: {error.strerror}") from error


def latest_state(state: Path) -> Path:
    """The database of a state in which some night was run. Raises StateError where none was."""
    path = state / DATABASE
    if not path.is_file():
        raise StateError(f"--state {state}: no night was ever run there")
    return path
