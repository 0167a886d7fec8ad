"""Slow tests run only when asked for: `pytest -m slow`."""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)  # users' suites, for the tests of the pytest plugin


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: minutes of work; run with -m slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("markexpr"):
        return
    kept = [item for item in items if item.get_closest_marker("slow") is None]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
