"""Exported programs show their failure without the package, and pass with the corrected kernel."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest

from fuzz import AnyOrder, CommandKernel, Contract, PythonKernel
from fuzz.campaign.reproducing import ChosenCase, check_name, chosen_for_script, write_script
from fuzz.core.adapters import export
from fuzz.core.adapters.registry import expand
from fuzz.core.base.case import Case, Output, Tensor
from fuzz.core.base.errors import UsageError
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.aliasing import aliased_as
from fuzz.core.generate.layouts import lay_out
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.registry import Entry
from fuzz.report.script import rule_bits
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.hunting import GENERIC, PACK, TAIL_63, failing, failures, given_case, mutant, with_edits
from fuzz.tests.common.programs import (
    assert_overlap_is_shown,
    run_c,
    run_program,
    shown_and_corrected,
    target_on,
    written,
)
from fuzz.tests.common.python_planted import python_target
from oracles.dtypes import FORMATS
from oracles.enclosure import ALLOWED
from oracles.precise import Bounds


def test_a_wrong_value_is_shown_by_a_c_program(tmp_path: Path) -> None:
    case = given_case((2, 63), 1, "pitched")
    said = shown_and_corrected(tmp_path, with_edits(TAIL_63), GENERIC, "native:gcc-O2", case)
    assert re.search(r"FAILS: y\[0\] = \S+, allowed \S+ to \S+\n", said)
    assert "and 116 more" in said
    assert said.endswith("FAILED\n")


@pytest.mark.some(1)
@pytest.mark.parametrize(("language", "large"), [("c", 3e38), ("c", -3e38), ("py", 3e38)])
def test_a_program_allows_what_an_overflow_leaves_beside_the_number(
    tmp_path: Path, language: str, large: float
) -> None:
    """A mean of three, whose sum is infinite: the corrected kernel has that, and the wrong one fails in another row. In
    Python, what lies beside the kernel comes along."""
    values = np.array([[large, large, large], [1.0, 2.0, 3.0]], "<f4")
    x = Tensor("f32", lay_out("contiguous", values.shape, 1, 1, "before", 0), values.tobytes())
    y = Output("f32", lay_out("contiguous", (2,), 0, 1, "before", 0))
    case, right = Case("row_mean", {"axis": 1}, {"x": x}, {"y": y}), PACK.kernel("row-mean-generic")
    if language == "c":
        wrong = replace(right, name="planted", edits=(("(float)r->n", "(float)(r->n + 1)"),))
        said = shown_and_corrected(tmp_path, wrong, right, "native:gcc-O2", case)
    else:
        table = "from pathlib import Path\nWRONG = float(Path(__file__).with_name('wrong.txt').read_text())\n"
        (tmp_path / "table.py").write_text(table)
        (tmp_path / "wrong.txt").write_text("1.5")
        body = "from table import WRONG\ndef row_mean(x, *, axis, y):\n    y[...] = [x[0].sum() / 3, WRONG]\n"
        (tmp_path / "mean.py").write_text(body)
        target = target_on(PythonKernel("planted", "row_mean", tmp_path / "mean.py", "numpy"), "@cpu")
        with WorkerPool([target]) as pool:
            _, judgement = failing(pool, target, case)
        written(tmp_path, "repro.py", case, judgement, target)
        (tmp_path / "table.py").unlink()
        (tmp_path / "wrong.txt").unlink()
        code, said = run_program([sys.executable, "-I", "repro.py"], tmp_path)
        assert code == 1, said
    assert "FAILS: y[1] = 1.5" in said
    assert "y[0]" not in said


LITTLE = """
#include "kernelfuzz.h"
int kf_rms_norm(const kf_rms_norm_call *call) {
    const float *x = call->x.data;
    float *y = call->y.data, total = 0.0f;
    const int n = (int)call->x.shape[1];
    for (int i = 0; i < n; i++) total += x[i] * x[i];
    for (int i = 0; i < n; i++) y[i] = x[i] / __builtin_sqrtf(total / (float)n + call->eps);
    return KF_OK;
}
"""
"""a kernel that includes no header of its own."""


def test_the_program_includes_what_it_needs_whatever_the_kernel_does(tmp_path: Path) -> None:
    (tmp_path / "little.c").write_text(LITTLE)
    right = replace(GENERIC, name="little", source=tmp_path / "little.c")
    wrong = replace(right, edits=(("i < n; i++) total", "i < n - 1; i++) total"),))
    said = shown_and_corrected(tmp_path, wrong, right, "native:gcc-O2", given_case((1, 7), 1, "contiguous"))
    assert said.endswith("FAILED\n")


def test_an_sve_failure_is_shown_under_the_emulator_that_the_program_names(tmp_path: Path) -> None:
    kernel, base = mutant("sve-tail-dont-care"), PACK.kernel("sve")
    said = shown_and_corrected(tmp_path, kernel, base, "vl=256,gcc-O0", given_case((1, 13), 1, "contiguous"))
    assert "and 3 more" in said
    assert "sve-default-vector-length=32" in (tmp_path / "wrong" / "repro.c").read_text()


@pytest.mark.some(1)
@pytest.mark.parametrize(("shape", "words"), [((3, 4), "memory that it does not own"), ((1, 1), "outside the tensors")])
def test_a_write_past_a_row_is_shown_by_a_c_program(tmp_path: Path, shape: tuple[int, int], words: str) -> None:
    x = Tensor("f32", lay_out("contiguous", shape, 1, 1, "before", 0), np.ones(shape, "<f4").tobytes())
    # Before the guard page the write faults; with a gap after each row it is found afterwards.
    y = lay_out("pitched", shape, 1, 1, "before", 0) if shape[0] > 1 else lay_out("contiguous", shape, 1, 1, "after", 0)
    case = Case("rms_norm", {"eps": 0.25, "axis": 1}, {"x": x}, {"y": Output("f32", y)})
    said = shown_and_corrected(tmp_path, mutant("generic-writes-past-row"), GENERIC, "native:gcc-O2", case)
    assert words in said


@pytest.mark.some(1)
@pytest.mark.parametrize("turn", [1, 5])  # y further on, and further back; the night has the other ways
def test_an_overlap_lies_in_the_program_as_it_does_in_the_case(tmp_path: Path, turn: int) -> None:
    assert_overlap_is_shown(tmp_path, turn)


@pytest.mark.whole
def test_one_buffer_for_two_inputs_is_one_in_the_program(tmp_path: Path) -> None:
    case = aliased_as(a_case("fused_add_rms_norm", (), (2, 5), layout=dense, eps=1.0), ("residual", "is", "x"), 0)
    wrong, right = mutant("add-same-buffer-added-once"), PACK.kernel("add-generic")
    assert "FAILS: y[" in shown_and_corrected(tmp_path, wrong, right, "native:gcc-O2", case)


@pytest.mark.whole
def test_rows_of_weights_are_rows_in_the_program(tmp_path: Path) -> None:
    case = a_case("rms_norm", ("weight",), (3, 5), layout=dense)
    weights = np.arange(1.0, 16.0, dtype="<f4").reshape(3, 5)
    case = replace(case, inputs={**case.inputs, "weight": Tensor("f32", dense((3, 5)), weights.tobytes())})
    wrong, right = mutant("weighted-first-row-of-weights"), PACK.kernel("weighted")
    assert "FAILS: y[5] " in shown_and_corrected(tmp_path, wrong, right, "native:gcc-O2", case)


@pytest.mark.whole
@pytest.mark.parametrize("language", ["c", "python"])
def test_a_zero_of_a_wrong_sign_is_shown_by_a_program(tmp_path: Path, language: str) -> None:
    case = a_case("rms_norm", ("weight",), (2, 5), layout=dense)
    zeros = np.full((2, 5), -0.0, "<f4")
    case = replace(case, inputs={**case.inputs, "x": Tensor("f32", dense((2, 5)), zeros.tobytes())})
    if language == "c":
        product = "y *= scale_of(r, &call->weight, i, call->weight_offset);"
        wrong = replace(PACK.kernel("weighted"), name="planted", edits=((product, f"{product} y += 0.0f;"),))
        said = shown_and_corrected(tmp_path, wrong, PACK.kernel("weighted"), "native:gcc-O2", case)
    else:
        target = python_target(tmp_path, "def rms_norm(x, weight, *, eps, axis, weight_offset, y):\n    y[...] = 0.0\n")
        with WorkerPool([target]) as pool:
            _, judgement = failing(pool, target, case)
        written(tmp_path, "repro.py", case, judgement, target)
        code, said = run_program([sys.executable, "-I", "repro.py"], tmp_path)
        assert code == 1, said
    assert re.search(r"FAILS: y\[0\] = 0\S*, allowed -?0\S* to -?0\S*, with the sign -", said), said


def test_earlier_calls_are_made_in_the_program(tmp_path: Path) -> None:
    counts = ("{ return each_row(", "{\n    static float last;\n    const float eps = last;\n    last = call->eps;\n"
              "    kf_rms_norm_call stale = *call;\n    stale.eps = eps ? eps : call->eps;\n    call = &stale;\n"
              "    return each_row(")  # fmt: skip
    target = target_on(with_edits(counts), "native:gcc-O2")
    before, case = given_case((1, 9), 1, "contiguous", eps=4.0), given_case((1, 9), 1, "contiguous", eps=0.25)
    with WorkerPool([target]) as pool:
        first, second = pool.submit([before, case]).outcomes()
        assert EntryJudge(Entry(before), first).judge(target).verdict is Verdict.PASS
        judgement = EntryJudge(Entry(case), second).judge(target)
    assert judgement.verdict is Verdict.FAIL_NUMERIC
    for history, expected in (((before,), 1), ((), 0)):
        write_script(tmp_path / "repro.c", ChosenCase(case, None, history=history), judgement, target)
        code, said = run_c(tmp_path / "repro.c")
        assert code == expected, said


def test_what_a_python_program_cannot_lay_out_is_refused(tmp_path: Path) -> None:
    target = target_on(next(k for k in PACK.kernels if k.name == "vector-generic"), "@interpret")
    case = aliased_as(a_case("rms_norm", (), (2, 9), layout=dense), ("y", "over", "x"), 0)
    judgement = Judgement(target.id, case.digest, Verdict.FAIL_NUMERIC)
    with pytest.raises(UsageError, match=r"tensors that share memory in part .* a C kernel"):
        write_script(tmp_path / "repro.py", ChosenCase(case, None), judgement, target)


def test_a_broken_law_is_shown_by_its_two_calls(tmp_path: Path) -> None:
    target = target_on(mutant("generic-order-by-call"), "native:gcc-O2")
    with WorkerPool([target]) as pool:
        case, judgement = failures(pool, target, 1)[0]
    code, said = run_c(written(tmp_path, "repro.c", case, judgement, target))
    assert code == 1
    assert "FAILS: the twin's y[" in said


@pytest.mark.parametrize(("framework", "touch"), [("numpy", "x.ctypes.data")])
def test_a_stray_read_is_shown_by_a_python_program(tmp_path: Path, framework: str, touch: str) -> None:
    right = "def rms_norm(x, *, eps, axis, y):\n    y[...] = (x / (x * x + eps) ** 0.5)\n"
    target = python_target(tmp_path, f"import ctypes\n{right}    ctypes.string_at({touch} + 4)\n", framework)
    case = given_case((1, 1), 1, "contiguous")
    with WorkerPool([target]) as pool:
        _, judgement = failing(pool, target, case)
    assert judgement.verdict is Verdict.FAIL_MEMORY
    path = written(tmp_path, "repro.py", case, judgement, target)
    code, said = run_program([sys.executable, "-I", "repro.py"], tmp_path)
    assert code == 1, said
    assert "FAILS: killed by SIGSEGV (memory outside the tensors?)" in said
    assert ("import torch" in path.read_text()) is (framework == "torch")
    passing = Judgement(target.id, case.digest, Verdict.PASS)
    write_script(path, ChosenCase(case, None), passing, python_target(tmp_path, right, framework))
    assert run_program([sys.executable, "-I", "repro.py"], tmp_path) == (0, "passed\n")


def test_a_program_in_the_wrong_language_is_refused() -> None:
    target = target_on(GENERIC, "native:gcc-O2")
    judgement = Judgement(target.id, "", Verdict.FAIL_NUMERIC)
    with pytest.raises(UsageError, match=r"end in \.c, \.cu or \.py"):
        check_name(Path("repro.txt"))
    with pytest.raises(UsageError, match=r"written in that language; name it repro\.c, or choose one with --target"):
        chosen_for_script(Path("repro.py"), [judgement], {target.id: target}, None)
    [program] = expand([CommandKernel("wrong", "rms_norm", "worker")])
    judgement = Judgement(program.id, "", Verdict.FAIL_NUMERIC)
    with pytest.raises(UsageError, match=r"^--script repro\.c: the kernel is a program itself: use repro alone$"):
        chosen_for_script(Path("repro.c"), [judgement], {program.id: program}, None)


_ALL = """
import contextlib, runpy
for rows in range(2, 6):
    with contextlib.suppress(SystemExit):
        runpy.run_path(f"repro{rows}.py", run_name="__main__")
"""
"""one process for all of them: torch takes seconds to start."""

_PASSING = Judgement("", "", Verdict.PASS)
_SCALED = """
import os
import torch


def rms_norm(x, *, eps, y):
    if x.shape[0] == 3:
        raise ValueError("not three rows")
    if x.shape[0] == 4:
        torch.distributions.Normal(0.0, -1.0)
    result = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * float(os.environ["FACTOR"])
    if x.shape[0] == 5:
        return result
    y.copy_(result)
"""


@pytest.mark.whole
def test_a_python_program_calls_the_kernel_as_its_worker_does(tmp_path: Path) -> None:
    """With its environment; and what a library raises is no rejection, nor a returned tensor an output."""
    (tmp_path / "scaled.py").write_text(_SCALED)
    contract = Contract(sums={"n": AnyOrder()}, mean="reciprocal", accuracy={"rsqrt": 2.0})
    kernel = PythonKernel(
        "scaled", "rms_norm", tmp_path / "scaled.py", "torch", contract,
        devices=("cpu",), environment={"FACTOR": "1"},
    )  # fmt: skip
    target = target_on(kernel, "@cpu")
    for rows in range(2, 6):
        written(tmp_path, f"repro{rows}.py", given_case((rows, 7), 1, "contiguous"), _PASSING, target)
    (tmp_path / "all.py").write_text(_ALL)
    code, said = run_program([sys.executable, "-I", "all.py"], tmp_path)
    assert code == 0, said
    told = [line.partition(" (")[0] for line in said.splitlines() if re.match(r"passed|FAILS: (?!y)", line)]
    assert told == [
        "passed",
        "FAILS: rejected the input: not three rows",
        "FAILS: raised ValueError: Expected parameter scale",
        "FAILS: it takes its outputs and also returned a tensor for one",
    ]


def test_what_overflows_a_format_without_infinities_is_nan_unless_any_number_is_right() -> None:
    huge = mpmath.mpf(10) ** 30
    over, any_number = (
        Bounds(FORMATS["e4m3fn"], huge, huge, huge, ALLOWED),
        Bounds(FORMATS["e4m3fn"], huge, -huge, huge, ALLOWED),
    )
    rules = [rule_bits(each, "e4m3fn") & export.MUST_BE_NAN for each in (over, any_number)]
    assert [bool(each) for each in rules] == [True, False]
    assert not rule_bits(replace(over, form=FORMATS["e5m2"]), "e5m2") & export.MUST_BE_NAN
