"""Workers of Triton kernels, interpreted and on a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.contracts.accepts import Accepts, untried
from fuzz.core.adapters.cuda import sanitized
from fuzz.core.adapters.python_kernel import Device
from fuzz.core.adapters.python_program import PythonAttestation
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.base.outcome import Fault, Status
from fuzz.core.base.probe import CALLER, probed
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import ANYTHING, a_case
from fuzz.tests.common.python_planted import BAD, PITCHED, TRITON, TRITON_HEAD, outcomes, python_target


@pytest.fixture(params=["interpret", "cuda"])
def triton_device(request: pytest.FixtureRequest) -> Device:
    found: Device = request.param
    return found


def test_a_triton_kernel_runs_as_its_target_says(tmp_path: Path, cache: Path, triton_device: Device) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", triton_device)
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
        outcome = pool.submit([a_case(PITCHED, contiguous((3, 4), offset=5))]).outcomes()[0][target.id]
    assert isinstance(status, PythonAttestation)
    assert (status.device, status.mode) == (
        triton_device,
        "interpreted" if triton_device == "interpret" else "compiled",
    )
    interpreters = ["numpy"] if triton_device == "interpret" else []  # which does the arithmetic there
    assert set(status.versions) == {"torch", "triton", "python", *interpreters}
    assert (outcome.status, outcome.damage) == (Status.RAN, ())
    assert outcome.outputs == {"y": a_case().inputs["x"].bits}


def test_a_triton_program_that_strays_is_named(tmp_path: Path, cache: Path, triton_device: Device) -> None:
    """Its last store has no mask: four elements too many. On a GPU they lie in a margin."""
    defect = TRITON.replace("x, mask=column < n)", "x)")
    target = python_target(tmp_path, TRITON_HEAD + defect, "triton", triton_device)
    (outcome,) = outcomes(target, cache, a_case())
    if triton_device == "interpret":
        assert outcome.fault == Fault("SIGSEGV", "y", 2, 0, "write", 3)
    else:
        assert [(d.tensor, d.kind, d.row, d.byte, d.where, d.count) for d in outcome.damage] == [
            ("y", "gap", 2, 0, "after", 16)
        ]


ON_A_GPU = """
BACKEND = triton.runtime.driver.active.get_current_target().backend
COUNT = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
ONES = torch.ones(3, device="cuda")
same = torch.compile(lambda x: x * 1, backend="eager")


@triton.jit
def program(x_ptr, y_ptr, size, COUNT: tl.constexpr):
    for place in range(tl.program_id(0), size, COUNT):
        tl.store(y_ptr + place, tl.load(x_ptr + place))


def rms_norm(x, y, eps, axis):
    assert BACKEND == "cuda" and torch.cuda.is_available() and x.is_cuda
    with torch.cuda.device(x.device.index):
        made = torch.zeros(x.shape, device=torch.device("cuda", 0)) + torch.ones(1, device="cpu").to("cuda:0")
        program[(COUNT,)](x.contiguous().cuda(), made, x.numel(), COUNT=COUNT)
    torch.cuda.synchronize()
    y.copy_(same(made) * ONES[0])
"""
"""It asks torch and Triton about the GPU, and makes tensors there, as published wrappers do."""


def test_a_wrapper_that_asks_for_a_gpu_runs_in_the_interpreter(tmp_path: Path, cache: Path) -> None:
    """Also in a thread of its own."""
    target = python_target(tmp_path, TRITON_HEAD + ON_A_GPU, "triton", "interpret")
    usual, in_a_thread = outcomes(target, cache, a_case(), probed(a_case(), CALLER))
    for outcome in (usual, in_a_thread):
        assert (outcome.status, outcome.outputs) == (Status.RAN, {"y": a_case().inputs["x"].bits}), outcome.detail


@pytest.mark.some(1)
def test_an_error_inside_a_triton_program_is_a_crash_with_its_line(
    tmp_path: Path, cache: Path, triton_device: Device
) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", triton_device)
    first, bad, last = outcomes(target, cache, a_case(), BAD, a_case())
    assert (first.status, bad.status, last.status) == (Status.RAN, Status.RAISED, Status.RAN)
    assert "planted.py line 15: program[(1,)](x, y, x.stride(0), BLOCK=8)" in bad.detail


@pytest.mark.some(1)
def test_a_wild_address_is_the_cases_outcome(tmp_path: Path, cache: Path, triton_device: Device) -> None:
    far = "program[(1,)](x, y, 1 << 40, x.shape[1], BLOCK=8)"
    text = TRITON.replace("program[(1,)](x, y, x.stride(0), BLOCK=8)", far)
    text = text.replace("row * pitch", "(row + 1) * pitch * (pitch > 9) + row * pitch")
    target = python_target(tmp_path, TRITON_HEAD + text, "triton", triton_device)
    found = outcomes(target, cache, a_case(), BAD, a_case(), BAD)
    assert [outcome.status for outcome in found] == [Status.RAN, Status.DIED, Status.RAN, Status.DIED]
    assert ("illegal memory access" if triton_device == "cuda" else "SIGSEGV") in found[1].detail
    assert found[2].outputs == {"y": a_case().inputs["x"].bits}


def test_a_stray_read_is_seen_by_the_sanitizer(tmp_path: Path, cache: Path) -> None:
    """The load has no mask, and all that was loaded is looked at, or the compiler would leave the rest out."""
    defect = TRITON.replace("column, mask=column < n, other=0.0)", "column)")
    defect = defect.replace("    tl.store(", "    x = tl.where(tl.max(x) >= -1.0, x, x + 1.0)\n    tl.store(")
    for text, status in ((TRITON, Status.RAN), (defect, Status.REPORTED)):
        target = python_target(tmp_path, TRITON_HEAD + text, "triton", "cuda")
        assert outcomes(target, cache, a_case())[0].damage == ()
        (checked,) = outcomes(next(sanitized(target)), cache, a_case())
        assert checked.status is status, checked.detail
        assert ("Invalid __global__ read" in checked.detail) is (status is Status.REPORTED)


LOGIC = """
@triton.jit
def program(x_ptr, y_ptr, pitch, rows, n, IS_OPEN: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    mask = row < rows and column < n and IS_OPEN
    far = not (row < 100 or column > 100)
    x = tl.load(x_ptr + row * pitch + column, mask=mask, other=0.0)
    if rows > 0 and n > 0 or IS_OPEN:
        tl.store(y_ptr + row * n + column, tl.where(far, 100.0, x), mask=mask)


def rms_norm(x, y, eps, axis):
    program[(1,)](x, y, x.stride(0), x.shape[0], x.shape[1], IS_OPEN=True, BLOCK=8)
"""
"""Its logic is that of blocks, which Python would take for true."""


def test_the_logic_of_blocks_is_that_of_their_elements(tmp_path: Path, cache: Path, triton_device: Device) -> None:
    target = python_target(tmp_path, TRITON_HEAD + LOGIC, "triton", triton_device)
    (outcome,) = outcomes(target, cache, a_case())
    assert (outcome.status, outcome.outputs) == (Status.RAN, {"y": a_case().inputs["x"].bits}), outcome.detail


def test_what_the_interpreter_gets_wrong_is_said_and_not_run(tmp_path: Path, cache: Path) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", "interpret")
    bf16 = Case(
        "rms_norm", {"axis": 1, "eps": 0.0}, {"x": Tensor("bf16", contiguous((1, 2)), b"\x80\x3f" * 2)},
        {"y": Output("bf16", contiguous((1, 2)))},
    )  # fmt: skip
    wider = replace(target, kernel=replace(target.kernel, capabilities=replace(ANYTHING, dtypes=("f32", "bf16"))))
    with WorkerPool([wider], cache=cache) as pool:
        status = pool.statuses[wider.id]
        refused, ran = (each[wider.id] for each in pool.submit([bf16, a_case()]).outcomes())
    assert isinstance(status, PythonAttestation)
    assert "Triton's interpreter gets bf16 wrong" in status.wrong_dtypes["bf16"]
    assert (refused.status, refused.detail) == (Status.NOT_RUN, status.wrong_dtypes["bf16"])
    assert ran.status is Status.RAN
    assert not untried(pool, wider, "f32")
    found = Accepts(wider.id, "x", ("f32",), untried={"bf16": untried(pool, wider, "bf16")})
    assert found.text.startswith("accepts: bf16 not tried (Triton's interpreter gets bf16 wrong: "), "it raises nothing"


@pytest.mark.whole
def test_an_interpreted_target_is_given_small_cases_unless_asked(tmp_path: Path, cache: Path) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", "interpret")
    tall = a_case(contiguous((200, 1)))
    with WorkerPool([target], cache=cache) as pool:
        assert pool.submit([tall, a_case()]).outcomes()[0] == {}
    with WorkerPool([target], cache=cache, bounded=False) as pool:
        assert pool.submit([tall]).outcomes()[0][target.id].status is Status.RAN
