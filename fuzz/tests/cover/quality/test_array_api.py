"""A namespace that judges in passing: right results of NumPy are right, and what a library gets wrong is seen."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fuzz.quality.__main__ import app
from fuzz.quality.array_api import UNREAD, JudgedNamespace, PassingJudge
from fuzz.tasks.comparison import RIGHT, WRONG
from fuzz.tests.conftest import Cli


def a_library(**functions: Any) -> ModuleType:
    """NumPy with some functions replaced."""
    found = ModuleType("numpy")
    found.__dict__.update(vars(np), **functions)
    return found


def test_what_numpy_returns_is_right_and_is_what_the_caller_gets() -> None:
    judge = PassingJudge()
    xp: Any = JudgedNamespace(np, judge)
    x = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)
    for got, want in (
        (xp.exp(x), np.exp(x)), (xp.mean(x, axis=1), np.mean(x, axis=1)), (xp.sum(x), np.sum(x)),
        (xp.matmul(x, x.T), x @ x.T), (xp.atan2(x, x + 1), np.arctan2(x, x + 1)), (xp.add(x, 2.0), x + 2),
    ):  # fmt: skip
        np.testing.assert_array_equal(got, want)
    assert {name: each.results for name, each in judge.calls.items()} == {
        name: {RIGHT: 1} for name in ("exp", "mean", "sum", "matmul", "atan2", "add")
    }


def test_a_wrong_result_is_seen_whatever_else_a_test_compares() -> None:
    def mean(x: Any, axis: Any = None) -> Any:
        return np.mean(x.astype(np.float16), axis=axis).astype(x.dtype)

    judge = PassingJudge()
    xp: Any = JudgedNamespace(a_library(mean=mean), judge)
    x = np.random.default_rng(1).standard_normal((8, 30)).astype(np.float32) + 100
    assert np.allclose(xp.mean(x, axis=1), np.mean(x, axis=1), rtol=1e-2)
    assert judge.calls["mean"].results == {WRONG: 1}
    assert "of float32[8, 30]: y[" in judge.calls["mean"].example


def test_what_is_not_judged_is_counted_and_no_more_calls_than_asked_are_judged() -> None:
    judge = PassingJudge(most=2)
    xp: Any = JudgedNamespace(np, judge)
    x = np.ones((2, 3), np.float32)
    for _ in range(5):
        xp.exp(x)
    assert (judge.calls["exp"].made, judge.calls["exp"].results) == (5, {RIGHT: 2})
    for call, given in ((xp.floor, np.arange(3)), (xp.exp, x.astype(complex)), (xp.sum, [1.0, 2.0])):
        call(given)
    assert {*judge.calls} == {"exp"}
    assert xp.float32 is np.float32
    assert xp.linalg.__name__ == "numpy.linalg"
    xp.linalg.qr(x)
    assert judge.calls["linalg.qr"].results == {UNREAD: 1}


SUITE = """
import numpy as np
import pytest
from array_api_tests import xp

@pytest.mark.parametrize("n", [3, 300])
def test_exp(n):
    assert xp.exp(np.linspace(-1, 1, n, dtype=np.float32)).shape == (n,)
"""
START = """
import os
namespace = {}
exec(os.environ["ARRAY_API_TESTS_MODULE"][6:-2], namespace)
xp = namespace["xp"]
"""
OPTIONS = """
def pytest_addoption(parser):
    parser.addoption("--max-examples")
    parser.addoption("--disable-deadline", action="store_true")
"""


def test_the_command_runs_a_suite_and_says_what_it_saw(cli_here: Cli, tmp_path: Path) -> None:
    suite, found = tmp_path / "suite", tmp_path / "found.json"
    (suite / "array_api_tests").mkdir(parents=True)
    for path, text in (
        ("array_api_tests/__init__.py", START), ("array_api_tests/test_it.py", SUITE), ("conftest.py", OPTIONS),
        ("pytest.ini", "[pytest]"),
    ):  # fmt: skip
        (suite / path).write_text(text)
    done = cli_here("array-api", str(suite), "--json", str(found), "--markdown", app=app)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| exp | 2 | 2 | 0 | 0 | 0 |" in done.stdout
    assert "2 passed" in done.stdout
    assert json.loads(found.read_text())["calls"]["exp"]["results"] == {RIGHT: 2}
    assert cli_here("array-api", str(tmp_path), app=app).returncode == 4


class _Foreign:
    """An array of a library that the reader does not know."""

    def __init__(self, own: Any) -> None:
        self.own, self.shape, self.dtype = own, own.shape, f"foreign.core.{own.dtype}"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.own


def test_a_library_that_is_not_read_is_held_to_what_numpy_means_by_the_name() -> None:
    def mean(x: _Foreign) -> _Foreign:
        return _Foreign(np.asarray(x.own.astype(np.float16).mean(), np.float32))

    library = a_library(mean=mean, exp=lambda x: _Foreign(np.exp(x.own)), softplus=lambda x: x)
    judge = PassingJudge()
    xp: Any = JudgedNamespace(library, judge)
    x = _Foreign(np.random.default_rng(1).standard_normal((8, 30)).astype(np.float32) + 100)
    small = _Foreign(np.linspace(0, 1, 5, dtype=np.float32))
    for name in ("mean", "exp", "softplus"):
        getattr(xp, name)(x if name == "mean" else small)
    found = {name: each.results for name, each in judge.calls.items()}
    assert found == {"mean": {WRONG: 1}, "exp": {RIGHT: 1}, "softplus": {UNREAD: 1}}, judge.calls
