"""On a CPU a Python kernel's tensors lie flush against inaccessible pages: what it touches there is a finding that
names the tensor and the byte, and the worker goes on."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.core.adapters.python_kernel import Device
from fuzz.core.base.case import Case, Layout, Tensor, contiguous
from fuzz.core.base.kernel import PLAIN
from fuzz.core.base.outcome import Fault, Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judge
from fuzz.tests.common.planted import a_case
from fuzz.tests.common.python_planted import (
    BAD,
    BEFORE,
    CUE,
    PITCHED,
    TORCH_HEAD,
    TRITON,
    TRITON_HEAD,
    RunPython,
    indented,
    outcomes,
    python_target,
)

NUMPY_HEAD = TORCH_HEAD.replace("import torch", "import ctypes\nimport numpy as np")
POKE = "import ctypes; ctypes.memset({tensor}.data_ptr() + {at}, 0, {count})"
PEEK = "import ctypes; ctypes.string_at({tensor}.data_ptr() + {at}, {count})"
FORGED = (
    "import ctypes, numpy; "
    "wide = torch.from_numpy(numpy.frombuffer((ctypes.c_float * 6000).from_address(x.data_ptr()), numpy.float32)); "
    "wide[{first}:{end}].sum()"
)
"""A tensor whose storage claims more than there is."""
UNMASKED = TRITON.replace(", mask=column < n, other=0.0", "").replace(
    "program[(1,)](x, y, x.stride(0), BLOCK=8)", "pass"
)


@pytest.fixture
def device() -> Device:
    """No others: on a GPU there are margins."""
    return "cpu"


def test_rows_that_lie_2_31_elements_apart_take_no_memory_and_a_place_of_32_bits_is_no_place(
    run_python: RunPython,
) -> None:
    """Each row is nearer to the next than 2^31: a kernel is wrong where it multiplies in 32 bits."""
    far = Layout((3, 4), (2**30 + 64, 1))
    wrapped = 4 * (2 * far.strides[0] - 2**32)
    wrong = PEEK.format(tensor="x", at=wrapped, count=4)
    for case in (a_case(far), a_case(replace(far, guard="before"))):
        cue = Case(case.op, case.params, {"x": Tensor("f32", case.inputs["x"].layout, b"\xff" * 48)}, case.outputs)
        before, bad, after = run_python(CUE.format(wrong), case, cue, case)
        assert before.outputs == after.outputs == {"y": case.inputs["x"].bits}
        assert bad.status is Status.DIED
        assert Judge(cue).judge(bad, PLAIN).verdict is Verdict.CRASH
    [near] = run_python("y.copy_(x); " + POKE.format(tensor="x", at=4 * 2**30, count=1), a_case(far))
    assert Judge(a_case(far)).judge(near, PLAIN).verdict is Verdict.FAIL_MEMORY


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("body", "case", "fault"),
    [
        (PEEK.format(tensor="x", at=40, count=16), a_case(), Fault("SIGSEGV", "x", 2, 0, "read", 3)),
        (PEEK.format(tensor="x", at=54, count=2), a_case(), Fault("SIGSEGV", "x", 2, 6, "read", 3)),
        (PEEK.format(tensor="x", at=-6, count=4), a_case(BEFORE), Fault("SIGSEGV", "x", 0, -6, "read", 0)),
        (PEEK.format(tensor="x", at=76, count=1), a_case(PITCHED), Fault("SIGSEGV", "x", 2, 4, "read", 3)),
        (POKE.format(tensor="y", at=48, count=4), a_case(), Fault("SIGSEGV", "y", 2, 0, "write", 3)),
        (POKE.format(tensor="y", at=-4, count=2), a_case(y=BEFORE), Fault("SIGSEGV", "y", 0, -4, "write", 0)),
        (POKE.format(tensor="y", at=60, count=1), a_case(alias="x"), Fault("SIGSEGV", "x", 2, 12, "write", 3)),
        (
            PEEK.format(tensor="x", at=60, count=1),
            a_case(contiguous((3, 4), offset=3)),
            Fault("SIGSEGV", "x", 2, 12, "read", 3),
        ),
        (PEEK.format(tensor="x", at=1 << 20, count=1), a_case(), Fault("SIGSEGV", "x", 2, (1 << 20) - 48, "read", 3)),
        (FORGED.format(first=8, end=16), a_case(), Fault("SIGSEGV", "x", 2, 0, "read", 3)),
    ],
    ids=["past", "further", "before", "pitched", "write", "write before", "in place", "distant", "far", "forged"],
)
def test_a_stray_access_is_named(run_python: RunPython, body: str, case: Case, fault: Fault) -> None:
    cue = Case(case.op, case.params, {"x": Tensor("f32", case.inputs["x"].layout, b"\xff" * 48)}, case.outputs)
    before, bad, after = run_python(CUE.format(body), case, cue, case)
    assert (before.status, after.status) == (Status.RAN, Status.RAN)
    assert (bad.status, bad.fault) == (Status.FAULT, fault)
    assert after.outputs == {"y": case.inputs["x"].bits}
    assert Judge(cue).judge(bad, PLAIN).verdict is Verdict.FAIL_MEMORY


@pytest.mark.parametrize(
    ("body", "tensor", "access"),
    [
        ("np.lib.stride_tricks.as_strided(x, (3, 5)).sum()", "x", "read"),
        ("np.lib.stride_tricks.as_strided(y, (13,), (4,))[:] = 0", "y", "write"),
        ("ctypes.memmove(y.ctypes.data, x.ctypes.data, 52)", "x", "read"),
    ],
)
def test_numpy_has_no_bounds_either(tmp_path: Path, cache: Path, body: str, tensor: str, access: str) -> None:
    text = NUMPY_HEAD + indented(f"y[...] = x\nif x[0, 0] != x[0, 0]: {body}")
    target = python_target(tmp_path, text, "numpy")
    before, bad, after = outcomes(target, cache, a_case(), BAD, a_case())
    assert bad.fault == Fault("SIGSEGV", tensor, 2, 0, access, 3)
    assert [before.status, after.status] == [Status.RAN, Status.RAN]


@pytest.mark.whole
def test_an_interpreted_program_without_a_mask(tmp_path: Path, cache: Path) -> None:
    target = python_target(tmp_path, TRITON_HEAD + UNMASKED, "triton", "interpret")
    (outcome,) = outcomes(target, cache, a_case())
    assert outcome.fault == Fault("SIGSEGV", "x", 2, 0, "read", 3)


def test_what_is_no_tensors_is_a_crash(run_python: RunPython) -> None:
    null = "import ctypes; ctypes.string_at(8)"
    # Newer versions of Python stop it before the stack ends.
    deep = "sys.setrecursionlimit(10**9); Deep = type('Deep', (), {'__getattr__': getattr}); Deep().more"
    for body in (null, deep):
        found = run_python(CUE.format(body), a_case(), BAD, a_case())
        assert [found[0].status, found[2].status] == [Status.RAN, Status.RAN]
        assert found[1].fault is None
        assert Judge(BAD).judge(found[1], PLAIN).verdict is Verdict.CRASH


def test_many_faults_in_one_worker(run_python: RunPython) -> None:
    found = run_python(PEEK.format(tensor="x", at=48, count=70000), *[a_case()] * 100)
    assert {outcome.status for outcome in found} == {Status.FAULT}
    assert len({outcome.fault for outcome in found}) == 1
    assert found[0].fault == Fault("SIGSEGV", "x", 2, 0, "read", 3)


def test_the_first_of_several_counts_and_damage_is_reported_too(run_python: RunPython) -> None:
    body = "\n".join(
        [POKE.format(tensor="y", at=48, count=1), PEEK.format(tensor="x", at=48, count=1), "x[0, 0] = 7", "1 / 0"]
    )
    (outcome,) = run_python(body, a_case())
    assert outcome.fault == Fault("SIGSEGV", "y", 2, 0, "write", 3)
    assert [(damage.tensor, damage.kind) for damage in outcome.damage] == [("x", "input")]


@pytest.mark.parametrize(
    "body",
    [
        "import threading; thread = threading.Thread(target=lambda: {}); thread.start(); thread.join()",
        "import faulthandler; {}; faulthandler.enable(); faulthandler.disable()",
    ],
    ids=["thread", "handler"],
)
def test_whoever_touches_it_and_whatever_handles_signals(run_python: RunPython, body: str) -> None:
    peek = "__import__('ctypes').string_at(x.data_ptr() + 48, 1)"
    found = run_python("y.copy_(x)\n" + body.format(peek), a_case(), a_case())
    assert [outcome.fault for outcome in found] == [Fault("SIGSEGV", "x", 2, 0, "read", 3)] * 2


def test_a_returned_view_that_is_longer_than_its_tensor(tmp_path: Path, cache: Path) -> None:
    """It is read after the call; the case that comes next is guarded as well as this one."""
    text = NUMPY_HEAD.replace("x, y,", "x,") + indented(
        "return np.lib.stride_tricks.as_strided(x[1:], (3, 4), (16, 4))"
    )
    found = outcomes(python_target(tmp_path, text, "numpy"), cache, a_case(), a_case())
    assert [outcome.fault for outcome in found] == [Fault("SIGSEGV", "x", 2, 0, "read", 3)] * 2


@pytest.mark.whole
def test_large_memory_is_guarded_too_and_given_back(run_python: RunPython) -> None:
    large = a_case(contiguous((3, 3 << 20)))
    back = PEEK.format(tensor="x", at="(36 << 20 if x.shape[1] > 4 else -1 << 20)", count=1)
    small, found, again = run_python(back, a_case(), large, a_case())
    assert found.fault == Fault("SIGSEGV", "x", 2, 0, "read", (3 << 20) - 1)
    # The large case's pages reached that far back.
    assert small.fault == again.fault == Fault("SIGSEGV", "x", 0, -1 << 20, "read", 0)


@pytest.mark.whole
def test_a_storage_that_no_memory_holds_is_not_tried(run_python: RunPython) -> None:
    (outcome,) = run_python("y.copy_(x)", a_case(contiguous((3, 4), offset=1 << 40)))
    assert outcome.status is Status.NOT_RUN


def test_without_a_compiler_a_touch_is_a_crash(run_python: RunPython, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.core.adapters.python_program.fault_watcher", lambda builder: "")
    before, bad, after = run_python(CUE.format(PEEK.format(tensor="x", at=48, count=1)), a_case(), BAD, a_case())
    assert [before.status, bad.status, after.status] == [Status.RAN, Status.DIED, Status.RAN]
    assert "SIGSEGV" in bad.detail


def test_addresses_that_cannot_be_reserved_are_said() -> None:
    lines = (
        "import resource",
        "from fuzz.core.transport.python.memory import Arena",
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))",
        "Arena(1024, 5, '')",
    )
    said = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False).stderr
    assert "MemoryError: cannot reserve" in said
