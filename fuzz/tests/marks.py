"""Tests of minutes run only when asked for: `-m slow`, and `-m nightly` for what the gate has no time for."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: minutes of work; run with -m slow")
    config.addinivalue_line("markers", "nightly: more minutes than the gate has; run with -m nightly")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("markexpr"):
        return
    kept = [item for item in items if not {mark.name for mark in item.iter_markers()} & {"slow", "nightly"}]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
