"""Workers that take long to start, as dozens on a GPU do."""

from __future__ import annotations

from pathlib import Path

from fuzz.tests.conftest import Cli

_LATE = """import time
import numpy as np
time.sleep(7)
def rms_norm(x, *, eps, y):
    y[...] = (x / np.sqrt((x.astype("f8") ** 2).mean(-1, keepdims=True) + eps)).astype(x.dtype)
"""


def test_the_time_of_a_search_begins_when_its_workers_are_started(cli_here: Cli, tmp_path: Path) -> None:
    """Else an op that is given a part of the time would be over before a GPU's dozens of workers are there."""
    (tmp_path / "late.py").write_text(_LATE)
    (tmp_path / "pack.py").write_text(
        "from pathlib import Path\nfrom fuzz import PythonKernel\n"
        "KERNELS = (PythonKernel('late', 'rms_norm', Path(__file__).parent / 'late.py', 'numpy'),)\n"
    )
    done = cli_here("run", "--pack", ".", "--max-time", "0.5s", "--seed", "1", "-j", "1", "--no-shrink")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "NOTHING RAN" not in done.stdout
