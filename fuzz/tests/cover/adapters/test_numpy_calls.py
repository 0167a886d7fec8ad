"""Kernels written with NumPy: what they are given, what they may return, and that they need no torch."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import fuzz
from fuzz.core.base.capability import DeclarationError
from fuzz.core.base.case import Case, Layout, Output, Tensor, contiguous
from fuzz.core.base.dtypes import NUMPY_DTYPE
from fuzz.core.base.kernel import PLAIN
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judge
from fuzz.tests.common.planted import a_case
from fuzz.tests.common.python_planted import BEFORE, PITCHED, indented, outcomes, python_target
from fuzz.tests.common.told import counts_of
from fuzz.tests.conftest import CHECKOUT, Cli

HEAD = "import numpy as np\n\n\ndef rms_norm(x, y, eps, axis):\n"
RETURNS_HEAD = HEAD.replace("x, y,", "x,")


def _run(folder: Path, cache: Path, text: str, *cases: Case) -> list[Outcome]:
    return outcomes(python_target(folder, text, "numpy"), cache, *cases)


@pytest.mark.some(2)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_every_dtype_and_layout(tmp_path: Path, cache: Path, dtype: str) -> None:
    bits = np.arange(1, 13).astype(NUMPY_DTYPE[dtype]).tobytes()
    layouts = (contiguous((3, 4)), BEFORE, PITCHED, Layout((3, 4), (1, 3), offset=5), Layout((3, 4), (9, 2), "before"))
    cases = [
        Case("rms_norm", {"axis": 1, "eps": 0.5}, {"x": Tensor(dtype, x, bits)}, {"y": Output(dtype, x)})
        for x in layouts
    ]
    able = fuzz.Capabilities(dtypes=(dtype,), strides="any", axis="any")
    target = python_target(tmp_path, HEAD + indented("y[...] = x * (eps + eps)"), "numpy", capabilities=able)
    for outcome in outcomes(target, cache, *cases):
        assert (outcome.status, outcome.damage, outcome.unwritten) == (Status.RAN, (), ())
        assert outcome.outputs == {"y": bits}


@pytest.mark.parametrize(
    ("body", "verdict", "said"),
    [
        ("return x[:, :3]", Verdict.FAIL_SHAPE, "the shape of y is [3, 3], must be [3, 4]"),
        ("return x * np.float64(1)", Verdict.FAIL_DTYPE, "the dtype of y is float64, must be float32"),
        ("return x.tolist()", Verdict.CRASH, "the kernel has no parameter 'y' and returned no array for it, but list"),
        ("raise ValueError('only short rows')", Verdict.REJECTED, "ValueError: only short rows (planted.py line 5"),
        ("x[0, 0] = 9; return x.copy()", Verdict.FAIL_INPUT_MODIFIED, ""),
    ],
)
def test_what_it_does_wrong_is_named(tmp_path: Path, cache: Path, body: str, verdict: Verdict, said: str) -> None:
    (outcome,) = _run(tmp_path, cache, RETURNS_HEAD + indented(body), a_case())
    assert said in outcome.detail
    assert Judge(a_case()).judge(outcome, PLAIN).verdict is verdict


def test_a_scalar_is_an_array_of_rank_0(tmp_path: Path, cache: Path) -> None:
    bits = np.float32(3).tobytes()
    case = Case("rms_norm", {"axis": 0, "eps": 0.5}, {"x": Tensor("f32", contiguous((1,)), bits)}, {
        "y": Output("f32", contiguous((1,))), "rstd": Output("f32", contiguous(())),
    })  # fmt: skip
    body = "return {'y': x, 'rstd': x[0] * np.float32(2)}"
    (outcome,) = _run(tmp_path, cache, RETURNS_HEAD + indented(body), case)
    assert outcome.outputs == {"y": bits, "rstd": np.float32(6).tobytes()}


def test_there_is_no_gpu_for_it(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="cuda"):
        fuzz.PythonKernel("k", "rms_norm", tmp_path / "k.py", "numpy", devices=("cuda",))


PACK = """
from pathlib import Path
from fuzz import AnyOrder, Capabilities, Contract, PythonKernel

KERNELS = (
    PythonKernel("plain", "rms_norm", Path(__file__).parent / "plain.py", "numpy",
        Contract(sums={"n": AnyOrder()}, accuracy={"rsqrt": 2.0}),
        Capabilities(dtypes=("f32", "bf16"), axis="any", strides="any")),
)
"""
PLAIN_TEXT = """
import numpy as np


def rms_norm(x, *, eps, axis, y):
    wide = x.astype(np.float32)
    y[...] = (wide / np.sqrt((wide * wide).mean(axis, keepdims=True) + eps)).astype(x.dtype)
"""


def test_it_needs_no_torch(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "pack.py").write_text(PACK)
    (tmp_path / "plain.py").write_text(PLAIN_TEXT)
    without = tmp_path / "without"
    without.mkdir()
    for name in ("torch", "triton"):
        (without / f"{name}.py").write_text(f"raise ImportError('{name} is not installed')\n")
    path = os.pathsep.join([str(without), str(CHECKOUT)])
    done = cli("run", "--pack", str(tmp_path), "--max-cases", "16", "--seed", "1", PYTHONPATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert counts_of(done.stdout) == (16, 16)


def test_a_function_of_arrays_is_checked_in_bf16_too() -> None:
    def of_arrays(x, eps):  # type: ignore[no-untyped-def]
        seen.add(x.dtype)
        wide = x.astype("f4")
        return (wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + eps)).astype(x.dtype)

    seen: set[object] = set()
    able = fuzz.Capabilities(dtypes=("f32", "bf16"))
    fuzz.check(of_arrays, op="rms_norm", arrays="numpy", capabilities=able, max_cases=40, seed=1)
    assert seen == {NUMPY_DTYPE["f32"], NUMPY_DTYPE["bf16"]}
