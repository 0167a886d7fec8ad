"""An output without dimensions, found wrong, explained, shown and written as a program like any other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.tests.conftest import Cli

PACK = """
from pathlib import Path
from fuzz import Capabilities, CKernel, Op, Operand, PythonKernel
from fuzz import formula as f

def whole_sum(x):
    return {"y": f.total(f.total(x, "n"), "b")}

OPS = (Op(whole_sum, inputs=(Operand("x", "b n"),), outputs=(Operand("y", ""),)),)
HERE, ABLE = Path(__file__).parent, Capabilities(empty=False)
KERNELS = (
    PythonKernel("right", "whole_sum", HERE / "right.py", "numpy", capabilities=ABLE),
    CKernel("tail", "whole_sum", HERE / "tail.c", capabilities=ABLE),
)
"""
RIGHT = """
import numpy as np
def whole_sum(x):
    return np.float32(x.sum(dtype=np.float64))
"""
TAIL = """
#include "kernelfuzz.h"
int kf_whole_sum(const kf_whole_sum_call *call) {
    const int64_t b = call->x.shape[0], n = call->x.shape[1];
    double sum = 0;
    for (int64_t i = 0; i < b; i++)
        for (int64_t j = 0; j < n - (n % 4 == 3); j++) sum += ((const float *)call->x.data)[i * n + j];
    *(float *)call->y.data = (float)sum;
    return KF_OK;
}
"""


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    (tmp_path / "pack.py").write_text(PACK)
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "tail.c").write_text(TAIL)
    return tmp_path


@pytest.mark.whole
def test_one_number_is_judged_shrunk_explained_shown_and_emitted(cli_here: Cli, pack: Path) -> None:
    with unknown_afterwards():
        words = "--max-cases 60 --seed 1 -j 1 --explain-time 300s -v --target numpy-right@cpu,c-tail@native:gcc-O2"
        done = cli_here("run", "--pack", str(pack), *words.split())
        assert done.returncode == 1, done.stdout + done.stderr
        assert "ORACLE_GAVE_UP" not in done.stdout
        assert "internal error" not in done.stdout + done.stderr
        assert "\n  worst         y\n" in done.stdout
        assert "  all of y" in done.stdout
        assert "passes on     numpy-right@cpu" in done.stdout
        (kept,) = map(str, (pack / "findings").glob("tail-fail_numeric*.json"))
        assert cli_here("repro", kept, "--pack", str(pack), "--script", "repro.c").returncode == 1
        told = cli_here("explain-budget", kept, "--pack", str(pack))
        assert told.stdout.startswith("y under the contract of c-tail@native:gcc-O2\n"), told.stderr
    subprocess.run(["gcc", "-std=gnu11", "-O2", "repro.c", "-lm", "-o", "repro"], cwd=pack, check=True)
    shown = subprocess.run(["./repro"], cwd=pack, capture_output=True, text=True)
    assert (shown.returncode, "y" in shown.stdout) == (1, True)
