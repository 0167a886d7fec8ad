"""Two kernels of two sources that are wrong alike, of values far apart: each has one bucket."""

from __future__ import annotations

import re
from pathlib import Path

from fuzz.tests.conftest import Cli

_PACK = """
from pathlib import Path
from fuzz import CKernel, Op, Operand, PythonKernel, formula as f

def silu_fma(a, b, c):
    return {"y": a * f.sigmoid(a) * b + c}

OPS = (Op(silu_fma, inputs=tuple(Operand(name, "... n") for name in "abc"), outputs=(Operand("y", "... n"),)),)
HERE = Path(__file__).parent
KERNELS = (
    CKernel("plain", "silu_fma", HERE / "plain.c"),
    PythonKernel("arrays", "silu_fma", HERE / "arrays.py", "numpy"),
)
"""
_IN_C = """
#include <math.h>
#include "kernelfuzz.h"
int kf_silu_fma(const kf_silu_fma_call *call) {
    const float *a = call->a.data, *b = call->b.data, *c = call->c.data;
    float *y = call->y.data;
    int64_t elements = 1;
    for (int axis = 0; axis < call->a.rank; axis++) elements *= call->a.shape[axis];
    for (int64_t i = 0; i < elements; i++) y[i] = a[i] / (1.0f + expf(-a[i])) * b[i] + c[i];
    return KF_OK;
}
"""
_IN_NUMPY = """
import numpy as np

def silu_fma(a, b, c):
    with np.errstate(all="ignore"):
        return a / (np.float32(1) + np.exp(-a)) * b + c
"""


def test_an_exponential_that_overflows_is_one_bucket_of_each_kernel(tmp_path: Path, cli_here: Cli) -> None:
    """It was seven, of rows of 12 to 503 elements, each with a rule about values that had nothing to do with it."""
    for name, text in {"pack.py": _PACK, "plain.c": _IN_C, "arrays.py": _IN_NUMPY}.items():
        (tmp_path / name).write_text(text)
    done = cli_here("run", "--pack", ".", "-v", "--max-cases", "3000", "--seed", "5")
    assert done.returncode == 1, done.stderr
    assert re.findall(r"^FAIL_\w+  (\w+) ", done.stdout, re.MULTILINE) == ["plain", "arrays"]
    assert "2 bugs in 2 kernels: " in done.stdout
    assert re.findall(r"^  a +T\((\[.*?\])", done.stdout, re.MULTILINE) == ["[1, 1]"] * 2
    assert "arrays, of another source or library, fails too: each has a bug" in done.stdout
