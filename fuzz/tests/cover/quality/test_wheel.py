"""What is installed: the engine and the oracle, and neither tests nor what measures ourselves."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch

from setuptools import find_packages

from fuzz.tests.conftest import CHECKOUT


def test_what_measures_ourselves_is_not_in_the_wheel() -> None:
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    packages = find_packages(str(CHECKOUT), **settings)
    assert {"fuzz", "fuzz.cli", "fuzz.campaign.gate", "fuzz.tasks", "oracles"} <= set(packages)
    assert (CHECKOUT / "fuzz" / "quality" / "__init__.py").is_file()
    assert not [name for name in packages if "quality" in name or "simulated" in name or "tests" in name]


def test_a_worker_that_is_added_as_the_page_adds_one_is_in_the_wheel() -> None:
    page = (CHECKOUT / "fuzz" / "docs" / "adding-an-adapter.md").read_text()
    files = re.findall(r"^\+\+\+ b/fuzz/(\S+)", page, re.MULTILINE)
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    others = [name for name in files if not name.endswith(".py")]
    assert "extras/perl_worker.pl" in others
    assert [name for name in others if not any(fnmatch(name, each) for each in settings["fuzz"])] == []
