"""Suites of users, run by pytest in a process of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy  # noqa: F401 (runs in this process forget what they imported, and numpy cannot be loaded twice)
import pytest

import fuzz.checking.explaining
import fuzz.pack  # noqa: F401 (and a forgotten class would be loaded a second time, as another)
from fuzz.tests.conftest import CHECKOUT

Suite = Callable[..., pytest.RunResult]


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Run pytest with our plugin, those of Hypothesis and xdist, and no other that may be installed.

    Failures are shown as they are found, unless the options say otherwise: explaining takes seconds.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    plugins = [word for name in ("fuzz.pytest_plugin", "_hypothesis_pytestplugin", "xdist") for word in ("-p", name)]

    def run(*options: str, here: bool = False) -> pytest.RunResult:
        if "--kernelfuzz-explain-time" not in options:
            options = ("--kernelfuzz-explain-time", "0s", *options)
        if here:  # saves a process, where nothing that is imported or warned of matters
            return pytester.runpytest_inprocess(*plugins, *options)
        return pytester.run(sys.executable, "-m", "pytest", *plugins, *options, timeout=300)

    return run
