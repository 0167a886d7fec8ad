"""A test in a folder `cover` that costs too much fails, wherever it spends it; of a table the gate has some rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Suite = Callable[..., pytest.RunResult]

_TESTS = """
import subprocess, sys, time
import pytest

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

CHILD = "import time\\nwhile time.process_time() < 0.5: pass\\nprint(flush=True)\\ninput()"

@pytest.fixture(scope="module")
def shared():
    burn(0.2)

def test_itself():
    burn(0.5)

def test_a_child_that_it_waited_for():
    subprocess.run([sys.executable, "-c", CHILD], check=True, input="\\n", text=True)

def test_a_child_that_goes_on():
    pytest.child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pytest.child.stdout.readline()

def test_one_that_waits():
    time.sleep(0.8)

def test_what_shares(shared):
    burn(0.2)
"""
_TABLE = """
import pytest

@pytest.mark.some(3)
@pytest.mark.parametrize("a", range(2))
@pytest.mark.parametrize("b", range(3))
def test_row(a, b):
    pass
"""
_DEAR = ("itself", "a_child_that_it_waited_for", "a_child_that_goes_on")


@pytest.mark.whole
def test_what_is_dear_fails_in_cover_and_nowhere_else(suite: Suite, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "from fuzz.tests.common import cost\ncost.LIMIT_S, cost.pace, cost.WHOLE = 0.3, lambda: 1.0, False"
    )
    (pytester.mkdir("cover") / "test_cover.py").write_text(_TESTS)
    (pytester.mkdir("nightly") / "test_nightly.py").write_text(_TESTS.partition("def test_a_child")[0])
    (pytester.path / "cover" / "test_table.py").write_text(_TABLE)
    shown = suite("-v", "-p", "fuzz.tests.common.cost")
    shown.assert_outcomes(passed=6, failed=3, deselected=3)
    failed = [line.split()[1] for line in shown.outlines if line.startswith("FAILED")]
    assert failed == [f"cover/test_cover.py::test_{name}" for name in _DEAR]
    said = shown.stdout
    rows = [line.partition("[")[2][:3] for line in shown.outlines if "::test_row[" in line]
    assert ({row[0] for row in rows}, {row[2] for row in rows}) == ({"0", "1", "2"}, {"0", "1"}), "each value is there"
    said.fnmatch_lines(["this test took 0.[5-9]* CPU seconds, and in a folder `cover` 0.3 are allowed: make it *"])
    said.fnmatch_lines(["*= * CPU seconds in tests, most of them in =*", " * [01].? *::test_*"])
