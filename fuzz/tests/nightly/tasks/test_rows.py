"""Kernels of ten kinds of operation, by someone who knew the kinds only: right ones pass, wrong ones are found in ten
of ten seeds. `python3 -m fuzz.tests.common.rows` prints the table, with the causes that are told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.tests.common.rows.running import ROWS
from fuzz.tests.conftest import CHECKOUT
from oracles.tests.common.whole import WHOLE


@pytest.mark.parametrize("row", ROWS)
def test_right_kernels_pass_and_wrong_ones_are_found(row: str, tmp_path: Path) -> None:
    """In processes of their own: Triton's interpreter is chosen before it is imported."""
    seeds = "10" if WHOLE else "1"
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.tests.common.rows", "--jobs", "1", "--seeds", seeds, "--rows", row],
        cwd=tmp_path, env={**os.environ, "KERNELFUZZ_EXPLAIN_S": "0", "PYTHONPATH": str(CHECKOUT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout
    assert "!!" not in done.stdout, done.stdout
