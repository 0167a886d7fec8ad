"""The demonstration finds its planted bug, shows that an ordinary test passes it, and says what to type next."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import pytest

from fuzz.tasks import demonstration
from fuzz.tests.conftest import Cli


def test_a_planted_bug_is_found_that_an_ordinary_test_passes(cli_here: Cli, tmp_path: Path) -> None:
    done = cli_here("demo", "--explain-time", "0.5s")
    assert done.returncode == 0, done.stderr
    assert "numpy.allclose on normal values of 64 x 1024: it passes." in done.stdout
    assert re.search(r"^FAIL  softmax  ", done.stdout, re.MULTILINE)
    assert re.search(r"-> .*y\[.*must be ", done.stdout, re.DOTALL)
    assert "--kernelfuzz" not in done.stdout, "these are options of pytest"
    assert [*tmp_path.iterdir()] == [], "it leaves nothing behind"
    [begin] = re.findall(r"^    kernelfuzz (init .*)", done.stdout, re.MULTILINE)
    (tmp_path / "mine.py").write_text(f"import numpy as np\nBLOCK = 4\n{inspect.getsource(demonstration.softmax)}")
    begun = cli_here(*shlex.split(begin.replace("YOUR_FILE", "mine")))
    assert begun.returncode == 0, begun.stderr
    assert "kernelfuzz run --pack mine" in done.stdout
    assert "kernelfuzz run --pack mine" in begun.stdout


def test_to_find_nothing_is_an_error_of_ours(cli_here: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstration, "found_by_check", lambda *arguments: [])
    done = cli_here("demo")
    assert (done.returncode, "the planted bug was not found" in done.stderr) == (3, True)
