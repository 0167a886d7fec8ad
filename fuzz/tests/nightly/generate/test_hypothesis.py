"""The oldest Hypothesis that may be installed beside us and the newest both do: not all that we use is a public
interface."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import hypothesis
import numpy
import pytest

from fuzz.tests.common.requirements import oldest
from fuzz.tests.conftest import CHECKOUT, HANG_S

_TESTS = (
    "fuzz/tests/cover/generate",
    "fuzz/tests/cover/explain/test_shrink.py",
    "fuzz/tests/cover/explain/test_smallest.py",
    "fuzz/tests/cover/findings/test_casefile.py",
    "fuzz/tests/cover/tasks/test_check.py",
    "fuzz/tests/cover/tasks/test_plugin.py",
    "oracles/tests/cover/test_rounding.py",
    "oracles/tests/cover/test_witness.py",
)
"""These draw with Hypothesis, shrink with it, or run beside its plugin."""


@pytest.mark.parametrize("wanted", [f"hypothesis=={oldest('hypothesis')}", "hypothesis"])
def test_the_tests_that_use_hypothesis_pass_at_both_ends(wanted: str, tmp_path: Path) -> None:
    """In a virtual environment that has this version, and everything else of ours."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True, timeout=HANG_S)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(tmp_path), "platbase": str(tmp_path)}))
    beside = dict.fromkeys(str(Path(module.__file__ or "").parents[1]) for module in (hypothesis, numpy, pytest))
    (packages / "beside.pth").write_text("".join(f"{folder}\n" for folder in beside))
    words = ("install", "--quiet", "--no-deps", "--target", str(packages), wanted)
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=HANG_S)
    python = str(tmp_path / "bin" / "python")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *words], cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False, timeout=HANG_S
        )

    used = run("-c", "import hypothesis; print(hypothesis.__file__, hypothesis.__version__)").stdout
    assert used.startswith(str(packages))
    assert used.split()[1] == wanted.partition("==")[2] or "==" not in wanted
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", *_TESTS)
    assert done.returncode == 0, done.stdout[-4000:]
