"""Suites of users, run by pytest in a process of their own."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable

import pytest

import fuzz
import oracles
from fuzz.tests.conftest import CHECKOUT

# Runs in this process forget what they imported. Extensions such as NumPy's cannot be loaded twice, and a class that is
# loaded twice is two: all that such a run may need is loaded before.
for package in (fuzz, oracles):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if ".tests" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)

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
