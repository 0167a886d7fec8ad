"""What tests of campaigns share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of a report is one line: tests read it."""
    monkeypatch.setenv("COLUMNS", "1000")
