"""Bugs in somebody's own kernel under their own tests: made where they say, run in a copy, counted as they are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fuzz.base.errors import UsageError
from fuzz.tests.conftest import Cli
from fuzz.uses.selftest.mutation import mutations

PYTHON = '''
def kernel(x, n=4):
    """Return 3 + 4."""
    for first in range(n):
        total += exp(x[first] - 1.5)
    return -total / mean(x).to(f32) if n <= 2 else sqrt(total)
'''
IN_PYTHON = (
    "for first in range(n - 1):", "total = exp(x[first] - 1.5)", "total += (x[first] - 1.5)",
    "total += exp(x[first] + 1.5)", "total += exp(x[first] - 1.6500000000000001)",
    "return total / mean(x).to(f32) if n <= 2 else sqrt(total)",
    "return -total * mean(x).to(f32) if n <= 2 else sqrt(total)",
    "return -total / sum(x).to(f32) if n <= 2 else sqrt(total)",
    "return -total / mean(x) if n <= 2 else sqrt(total)",
    "return -total / mean(x).to(f32) if n < 2 else sqrt(total)",
    "return -total / mean(x).to(f32) if n <= 3 else sqrt(total)",
    "return -total / mean(x).to(f32) if n <= 2 else (total)",
)  # fmt: skip
C = """
#include <math.h>
#define MORE (1 + 2)  // 3 + 4
int kernel(const float *x, float *y, long n) { /* 5 < 6 */
    for (long i = 0; i < n; i += 4) total += x[i] * x[i];
    puts("7 + 8");
    y[0] = sqrtf(total) - 1e-6f;
}
"""
IN_C = (
    "for (long i = 1; i < n; i += 4) total += x[i] * x[i];", "for (long i = 0; i <= n; i += 4) total += x[i] * x[i];",
    "for (long i = 0; i < n; i += 5) total += x[i] * x[i];", "for (long i = 0; i < n; i += 4) total = x[i] * x[i];",
    "for (long i = 0; i < n; i += 4) total += x[i] / x[i];", "y[1] = sqrtf(total) - 1e-6f;", "y[0] = (total) - 1e-6f;",
    "y[0] = sqrtf(total) + 1e-6f;", "y[0] = sqrtf(total) - 1.1e-06f;",
)  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), [("mine.py", PYTHON, IN_PYTHON), ("mine.c", C, IN_C)])
def test_bugs_are_made_in_what_is_calculated_and_nowhere_else(name: str, text: str, expected: tuple[str, ...]) -> None:
    """Not in defaults, documentation, comments, strings and macros; no loop is made endless."""
    found = mutations(Path(name), text)
    assert tuple(each.lines(text)[2] for each in found) == expected
    assert all(each.lines(text)[1] == text.splitlines()[each.lines(text)[0] - 1].strip() for each in found)


def test_a_language_of_which_nothing_is_known_is_refused() -> None:
    with pytest.raises(UsageError, match=r"mine\.f90"):
        mutations(Path("mine.f90"), "")
    with pytest.raises(UsageError, match="line 1"):
        mutations(Path("mine.py"), "def")


KERNEL = """
import numpy as np


def row_sum(x):
    total = np.zeros(x.shape[:-1], np.float32)
    whole = x.shape[-1] // 8 * 8
    total += x[..., :whole].sum(-1)
    total += x[..., whole:].sum(-1)
    return total
"""
PACK = """
from pathlib import Path
from fuzz import Any, Capabilities, Contract, PythonKernel
KERNELS = (
    PythonKernel("mine", "row_sum", Path(__file__).parent / "mine.py", "numpy", Contract(sums={"n": Any()}),
                 Capabilities(empty=False)),
)
"""
TESTS = """
import numpy as np
from mine import row_sum
x = np.arange(32.0, dtype=np.float32).reshape(2, 16)
assert (row_sum(x) == x.sum(-1)).all()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in (("mine.py", KERNEL), ("pack.py", PACK), ("tests.py", TESTS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_bug_that_their_tests_do_not_notice_is_told_with_what_finds_it(cli_here: Cli, project: Path) -> None:
    """One that matters only to rows that are no matrix, one that does not matter, and one that the tests notice."""
    words = ("selftest", "--pack", ".", "--against", f"{sys.executable} tests.py", "--max-cases", "64")
    done = cli_here(*words, "--bugs", "3", "--seed", "17", "--json", "found.json")
    bugs = json.loads((project / "found.json").read_text())["bugs"]
    assert [(each["after"], each["killed"], bool(each["found"])) for each in bugs] == [
        ("whole = x.shape[-2] // 8 * 8", False, True),
        ("total = x[..., :whole].sum(-1)", False, False),
        ("total = x[..., whole:].sum(-1)", True, True),
    ]
    assert done.returncode == 1, done.stderr
    assert "your tests notice 1 of 3 bugs; kernelfuzz finds 2" in done.stdout
    assert done.stdout.count("survived: mine.py:") == 2
    assert (project / "mine.py").read_text() == KERNEL


@pytest.mark.parametrize(
    ("tests", "said"),
    [("assert 0", "fails without any bug"), ("assert 1", "it tests something else")],
)
def test_tests_that_can_tell_nothing_are_told_in_a_line(cli_here: Cli, project: Path, tests: str, said: str) -> None:
    (project / "tests.py").write_text(tests)
    done = cli_here("selftest", "--pack", ".", "--against", f"{sys.executable} tests.py", "--bugs", "1")
    assert done.returncode == 4
    assert said in done.stderr
    assert "Traceback" not in done.stderr.splitlines()[-1]


def test_a_kernel_that_lies_elsewhere_is_told_in_a_line(cli_here: Cli, project: Path) -> None:
    (project / "empty").mkdir()
    done = cli_here("selftest", "--pack", ".", "--against", "true", "--project", "empty")
    assert done.returncode == 4
    assert "name your pack with --pack, and the folder of the sources and tests with --project" in done.stderr


def test_a_kernel_that_cannot_be_loaded_is_told_before_a_bug_is_made(cli_here: Cli, project: Path) -> None:
    (project / "mine.py").write_text(KERNEL.replace("import numpy", "import not_here\nimport numpy"))
    done = cli_here("selftest", "--pack", ".", "--against", "true")
    assert done.returncode == 4
    assert "numpy-mine@cpu does not run, without a bug: mine: mine.py: ModuleNotFoundError" in done.stderr
