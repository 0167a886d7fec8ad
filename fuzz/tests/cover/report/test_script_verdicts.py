"""An exported program shows the verdict of its finding, whichever it is, and passes where its kernel is mended."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.target import Target
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.case import Case
from fuzz.core.base.errors import UsageError
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.registry import with_twins
from fuzz.report.glossary import MEANINGS
from fuzz.tests.common.handmade import a_case, dense, padded
from fuzz.tests.common.hunting import GENERIC
from fuzz.tests.common.planted import HANGS
from fuzz.tests.common.programs import run_c, run_program, target_on, written

_CALLED = [each for each in Verdict if each.is_finding and each is not Verdict.FAIL_PROCESS]
_RETURNS = MEANINGS[Verdict.PASS].example
_WRITES = _RETURNS.replace("(x)", "(x, y)", 1).replace("return ", "y[...] = ")
_REJECTS = _RETURNS.replace("\n", "\n    if x.dtype != np.float32:\n        raise ValueError(x.dtype)\n", 1)
_HEAD, _, _LAST = _RETURNS.rpartition("\n    return ")
_EMPTY = f"{_HEAD}\n    y = np.empty_like(x)\n    y[:, 1:] = ({_LAST})[:, 1:]\n    return y"
_CHECKS = Capabilities(outside="rejects")
PYTHON = {
    **{each.value: (each, MEANINGS[each].example, _RETURNS) for each in _CALLED},
    "FAIL_UNWRITTEN": (Verdict.FAIL_UNWRITTEN, MEANINGS[Verdict.FAIL_UNWRITTEN].example, _WRITES),
    "FAIL_ACCEPTED_INVALID": (Verdict.FAIL_ACCEPTED_INVALID, _RETURNS, _REJECTS),
    "made of new memory": (Verdict.FAIL_UNWRITTEN, _EMPTY, _RETURNS),
    "ends": (Verdict.CRASH, _RETURNS.replace("return ", "import os\n    os._exit(0)\n    return "), _RETURNS),
    "leaves": (Verdict.CRASH, _RETURNS.replace("return ", "raise SystemExit(0)\n    return "), _RETURNS),
    "returns nothing": (Verdict.CRASH, _RETURNS.replace("return ", "y = "), _RETURNS),
}  # fmt: skip
"""A verdict, a kernel that gets it, and one that is right."""


@pytest.mark.some(2)
@pytest.mark.parametrize("which", PYTHON)
def test_a_python_program_shows_the_verdict_and_passes_once_its_kernel_is_mended(tmp_path: Path, which: str) -> None:
    verdict, wrong, right = PYTHON[which]
    (tmp_path / "planted.py").write_text(f"import numpy as np\n\n\n{wrong}\n")
    invalid = verdict is Verdict.FAIL_ACCEPTED_INVALID
    kernel = PythonKernel(
        "planted", "softmax", tmp_path / "planted.py", "numpy", capabilities=_CHECKS if invalid else Capabilities()
    )
    scale = 100.0 if verdict is Verdict.FAIL_NONFINITE else 1.0
    case = a_case("softmax", (), (3, 133), dtype="f16" if invalid else "f32", layout=dense, scale=scale)
    case = replace(case, params={"axis": 1})
    target = target_on(kernel, "@cpu")
    path = written(tmp_path, "repro.py", case, _judged(target, case, verdict), replace(target, case_limit=0.5))
    command = [sys.executable, "-I", path.name]
    code, said = run_program(command, tmp_path)
    assert (code, said[:7], "FAILED\n" in said) == (1, "FAILS: ", True), said
    mended = path.read_text().replace(wrong, right)
    assert mended != path.read_text()
    path.write_text(mended)
    code, said = run_program(command, tmp_path)
    assert (code, said) == (0, "passed\n"), said


_C = """
#include <stdlib.h>
#include "kernelfuzz.h"
int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call->x.strides[1] != 1) return KF_REJECTED;
    const float *x = call->x.data;
    float *y = call->y.data, total = 0.0f;
    const int n = (int)call->x.shape[1], xs = (int)call->x.strides[1], ys = (int)call->y.strides[1];
    for (int i = 0; i < n; i++) total += x[i * xs] * x[i * xs];
    for (int i = 0; i < n; i++) y[i * ys] = x[i * xs] / __builtin_sqrtf(total / (float)n + call->eps);
    return KF_OK;
}
"""
_END = "    return KF_OK;"
C = {
    "FAIL_NUMERIC": (Verdict.FAIL_NUMERIC, "i < n; i++) total", "i < n - 1; i++) total"),
    "FAIL_NONFINITE": (Verdict.FAIL_NONFINITE, _END, f"    y[0] = __builtin_nanf(\"\");\n{_END}"),
    "FAIL_LAW": (
        Verdict.FAIL_LAW, "total = 0.0f;", "total;\n    static int calls;\n    total = (float)calls++ * 3e-4f;",
    ),
    "FAIL_MEMORY": (Verdict.FAIL_MEMORY, _END, f"    y[n] = 1.0f;\n{_END}"),
    "FAIL_INPUT_MODIFIED": (Verdict.FAIL_INPUT_MODIFIED, _END, f"    ((float *)x)[0] = 7.0f;\n{_END}"),
    "FAIL_UNWRITTEN": (Verdict.FAIL_UNWRITTEN, "i < n; i++) y", "i < n - 1; i++) y"),
    "FAIL_ACCEPTED_INVALID": (Verdict.FAIL_ACCEPTED_INVALID, "call->x.strides[1] != 1", "call->x.strides[1] == 9"),
    "CRASH": (Verdict.CRASH, _END, f"    abort();\n{_END}"),
    "ends": (Verdict.CRASH, _END, f"    exit(0);\n{_END}"),
    "TIMEOUT": (Verdict.TIMEOUT, _END, f"    {HANGS}\n{_END}"),
    "REJECTED": (Verdict.REJECTED, "call->x.strides[1] != 1", "call->x.shape[1] % 4"),
    "FAIL_MEMORY of a rejection": (Verdict.FAIL_MEMORY, _END, "    return n % 4 ? KF_REJECTED : KF_OK;"),
}  # fmt: skip
"""A verdict, and an edit of the kernel that gets it."""


@pytest.mark.some(3)
@pytest.mark.parametrize("which", C)
def test_a_c_program_shows_the_verdict_and_passes_once_its_kernel_is_mended(tmp_path: Path, which: str) -> None:
    verdict, right, wrong = C[which]
    (tmp_path / "planted.c").write_text(_C)
    invalid = verdict is Verdict.FAIL_ACCEPTED_INVALID
    kernel = replace(
        GENERIC, name="planted", source=tmp_path / "planted.c", edits=((right, wrong),), laws=("rerun",),
        capabilities=Capabilities(outside="rejects") if invalid else Capabilities(),
    )  # fmt: skip
    case = a_case("rms_norm", (), (1, 133), layout=padded if invalid else dense)
    target = target_on(kernel, "native:gcc-O0")
    path = written(tmp_path, "repro.c", case, _judged(target, case, verdict), replace(target, case_limit=0.5))
    code, said = run_c(path)
    assert (code, said[:7], "FAILED\n" in said) == (1, "FAILS: ", True), said
    assert path.read_text().count(wrong) == 1
    path.write_text(path.read_text().replace(wrong, right))
    assert run_c(path) == (0, "passed\n")


def test_each_verdict_is_shown_or_refused(tmp_path: Path) -> None:
    shown = {verdict for verdict, *_ in PYTHON.values()}
    assert shown == {*_CALLED}
    assert {verdict for verdict, *_ in C.values()} == shown - {Verdict.FAIL_SHAPE, Verdict.FAIL_DTYPE}  # C returns none
    case, target = a_case("rms_norm", (), (1, 5), layout=dense), target_on(GENERIC, "native:gcc-O0")
    judgement = Judgement(target.id, case, Verdict.FAIL_PROCESS)
    with pytest.raises(UsageError, match="--script: no program shows what a call leaves changed in its process"):
        written(tmp_path, "repro.c", case, judgement, target)
    assert not (tmp_path / "repro.c").exists()


def _judged(target: Target, case: Case, verdict: Verdict) -> Judgement:
    """What the case's run is judged as, which must be the verdict; that of one that hangs would be waited for."""
    if verdict is Verdict.TIMEOUT:
        return Judgement(target.id, case, verdict)
    entries = with_twins([case], ("rerun",), 1)
    judge = None
    with WorkerPool([target]) as pool:
        for entry, outcomes in zip(entries, pool.submit([each.case for each in entries]).outcomes(), strict=True):
            judge = EntryJudge(entry, outcomes, judge)
            judgement = judge.judge(target)
            if judgement.verdict.is_finding:
                break
    assert judgement.verdict is verdict, judgement
    return judgement
