"""Workers of Python kernels: what padded memory catches, what a call may end in, and what a worker says of itself."""

from __future__ import annotations

import os
import signal
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.case import Case, Guard, Layout, Output, Tensor, contiguous
from fuzz.execute.attestation import AttestationError, NotRun
from fuzz.execute.build import BuildError
from fuzz.execute.pool import WorkerPool
from fuzz.execute.python_program import PythonAttestation
from fuzz.execute.python_target import no_cuda_device, python_targets
from fuzz.execute.target import expand
from fuzz.execute.toolchain import this_host
from fuzz.judge.judge import Judge
from fuzz.kernel import PLAIN, Device, PythonKernel
from fuzz.mutant import Mutant
from fuzz.outcome import Damage, Outcome, Status, Unwritten
from fuzz.tests.execute.planted import ANYTHING, a_case
from fuzz.tests.execute.python_planted import (
    RETURNS_HEAD,
    TORCH_HEAD,
    TRITON_HEAD,
    RunPython,
    indented,
    outcomes,
    python_target,
)
from fuzz.verdict import Verdict

BEFORE = contiguous((3, 4), guard="before")
PITCHED = Layout((3, 4), (7, 1))
BAD = a_case(bits=b"\xff" * 48)
"""a case that some kernels below take for their cue."""
CUE = "if x[0, 0] != x[0, 0]: {}\ny.copy_(x)"


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> Device:
    found: Device = request.param
    return found


@pytest.fixture
def run(tmp_path: Path, cache: Path, device: Device) -> RunPython:
    """Outcomes of a torch kernel's body on cases."""

    def go(body: str, *cases: Case, head: str = TORCH_HEAD, **options: object) -> list[Outcome]:
        return outcomes(python_target(tmp_path, head + indented(body), device=device), cache, *cases, **options)

    return go


def test_a_correct_kernel_is_left_alone(run: RunPython) -> None:
    layouts = (contiguous((3, 4)), BEFORE, PITCHED, Layout((3, 4), (1, 3), offset=5), Layout((3, 4), (9, 2), "before"))
    cases = [a_case(layout, layout) for layout in layouts]
    for case, outcome in zip(cases, run("y.copy_(x)", *cases), strict=True):
        assert (outcome.status, outcome.damage, outcome.unwritten) == (Status.RAN, (), ())
        assert outcome.outputs == {"y": case.inputs["x"].bits}


def test_the_kernel_sees_the_case(run: RunPython) -> None:
    x, y = Layout((1, 2, 3), (50, 0, 2), "before", 3), Layout((1, 13), (2, 2))
    bits = a_case(Layout((1, 3), (3, 1))).inputs["x"].bits * 2
    case = Case("rms_norm", {"axis": 1, "eps": 0.5}, {"x": Tensor("f32", x, bits)}, {"y": Output("f32", y)})
    body = "y[0] = torch.tensor([x.ndim, *x.shape, *x.stride(), axis, eps, *x[0, 1], x.is_floating_point()]).float()"
    (outcome,) = run(body, case)
    assert list(memoryview(outcome.outputs["y"]).cast("f")) == [3, 1, 2, 3, 50, 0, 2, 1, 0.5, 1, 2, 3, 1]
    assert (outcome.damage, outcome.unwritten) == ((), ())


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("guard", ["after", "before"])
def test_every_address_is_the_one_that_the_case_asks_for(run: RunPython, dtype: str, guard: Guard) -> None:
    size = 4 if dtype == "f32" else 2
    layouts = [contiguous((1, 3), guard, offset) for offset in range(64 // size)]
    seen = run("y.fill_(x.data_ptr() % 64)", *[a_case(layout, contiguous((1, 3)), dtype) for layout in layouts])
    kind = "<f" if dtype == "f32" else "<e"
    found = [struct.unpack_from(kind, outcome.outputs["y"])[0] for outcome in seen]
    assert found == [layout.alignment(size) for layout in layouts]
    assert len(set(found)) == 64 // size


def _stray(tensor: str, at: int) -> str:
    """Write one element `at` elements from the first one of a tensor."""
    return f"torch.as_strided({tensor}, (1,), (1,), {tensor}.storage_offset() + {at}).fill_(1)"


@pytest.mark.parametrize(
    ("strays", "case", "damage"),
    [
        ([("y", 14)], a_case(), Damage("y", "gap", 2, 8, "after", 4)),
        ([("y", -2), ("y", -1)], a_case(), Damage("y", "gap", 0, -4, "before", 8)),
        ([("y", 12)], a_case(y=contiguous((3, 4), offset=3)), Damage("y", "gap", 2, 0, "after", 4)),
        ([("y", 12)], a_case(y=PITCHED), Damage("y", "gap", 1, 48, "inside", 4)),
        ([("x", 5)], a_case(), Damage("x", "input", 1, 22, "inside", 4)),
        ([("x", 12)], a_case(BEFORE), Damage("x", "gap", 2, 0, "after", 4)),
    ],
)
def test_a_stray_write_is_named(
    run: RunPython, strays: list[tuple[str, int]], case: Case, damage: Damage, device: Device
) -> None:
    (outcome,) = run("\n".join(["y.copy_(x)", *(_stray(*stray) for stray in strays)]), case)
    assert [(d.tensor, d.kind, d.row, d.byte, d.where) for d in outcome.damage] == [
        (damage.tensor, damage.kind, damage.row, damage.byte, damage.where)
    ]
    assert 1 <= outcome.damage[0].count <= damage.count  # bytes that happen to be those of the poison do not differ
    verdict = Judge(case).judge(outcome, PLAIN).verdict
    assert verdict is (Verdict.FAIL_INPUT_MODIFIED if damage.kind == "input" else Verdict.FAIL_MEMORY)


def test_outputs_in_place(run: RunPython) -> None:
    cases = [a_case(layout, alias="x") for layout in (contiguous((3, 4)), PITCHED)]
    bits = [outcome.outputs["y"] for outcome in run("assert y.data_ptr() == x.data_ptr()\ny.mul_(2)", *cases)]
    doubled = [value * 2 for value in memoryview(cases[0].inputs["x"].bits).cast("f")]
    assert [list(memoryview(each).cast("f")) for each in bits] == [doubled] * 2


def test_unwritten_elements_are_counted_and_results_that_look_like_poison_are_not(run: RunPython) -> None:
    (missed, none, same) = (
        *run("y[:2].copy_(x[:2])", a_case()),
        *run("pass", a_case(y=PITCHED)),
        *run("y.view(torch.int32).fill_(0x7FFD7FFD)", a_case()),
    )
    assert missed.unwritten == (Unwritten("y", 8, 4),)
    assert none.unwritten == (Unwritten("y", 0, 12),)
    assert same.unwritten == ()


def test_a_second_run_can_be_asked_for(run: RunPython) -> None:
    body = "y.copy_(x)\nif hasattr(torch, 'called'): y.view(-1)[0] = 7\ntorch.called = True"
    assert run(body, a_case(), second_run=True)[0].outputs["y"] == a_case().inputs["x"].bits
    stray = f"y.copy_(x)\nif hasattr(torch, 'called'): {_stray('y', 12)}\ntorch.called = True"
    assert run(stray, a_case(), second_run=True)[0].damage


def test_returned_outputs(run: RunPython) -> None:
    cases = [a_case(), a_case(PITCHED), a_case(dtype="f16")]
    for body in (
        "return x.clone()",
        "return {'y': x * 1}",
        "return torch.empty_like(x).requires_grad_().data.copy_(x)",
    ):
        for case, outcome in zip(cases, run(body, *cases, head=RETURNS_HEAD), strict=True):
            assert (outcome.status, outcome.outputs) == (Status.RAN, {"y": case.inputs["x"].bits})


@pytest.mark.parametrize(
    ("body", "status", "verdict", "said"),
    [
        ("return x[:, :3]", Status.WRONG_SHAPE, Verdict.FAIL_SHAPE, "y has the shape [3, 3], not [3, 4]"),
        ("return x.double()", Status.WRONG_DTYPE, Verdict.FAIL_DTYPE, "y has the dtype float64, not f32"),
        ("return {'z': x}", Status.RAISED, Verdict.CRASH, "no parameter 'y' and returned no tensor for it, but dict"),
        ("pass", Status.RAISED, Verdict.CRASH, "returned no tensor for it, but NoneType"),
    ],
)
def test_a_returned_output_that_does_not_fit(
    run: RunPython, body: str, status: Status, verdict: Verdict, said: str
) -> None:
    (outcome,) = run(body, a_case(), head=RETURNS_HEAD)
    assert outcome.status is status
    assert said in outcome.detail
    assert Judge(a_case()).judge(outcome, PLAIN).verdict is verdict


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (
            "raise ValueError('only short rows')",
            Status.REJECTED,
            "ValueError: only short rows (planted.py line 6",
        ),
        ("raise NotImplementedError", Status.REJECTED, "NotImplementedError (planted.py line 6"),
        ("x.reshape(5, 5)", Status.RAISED, "RuntimeError: shape '[5, 5]' is invalid for input of size 12 (planted.py"),
        ("sys.exit(3)", Status.RAISED, "SystemExit: 3 (planted.py line 6: if x[0, 0] != x[0, 0]: sys.exit(3))"),
        ("os.abort()", Status.DIED, "SIGABRT"),
        ("os._exit(0)", Status.DIED, "exit code 0"),
        ("sys.stderr.write('oh no'); sys.stderr.flush(); os._exit(3)", Status.DIED, "exit code 3: oh no"),
    ],
)
def test_however_a_call_ends_every_case_has_an_outcome(run: RunPython, body: str, status: Status, said: str) -> None:
    found = run(CUE.format(body), a_case(), BAD, a_case(), BAD)
    assert [outcome.status for outcome in found] == [Status.RAN, status, Status.RAN, status]
    assert said in found[1].detail
    assert found[2].outputs == {"y": a_case().inputs["x"].bits}
    assert Judge(BAD).judge(found[1], PLAIN).verdict is (
        Verdict.REJECTED if status is Status.REJECTED else Verdict.CRASH
    )


def test_a_rejection_leaves_the_outputs_alone(run: RunPython) -> None:
    found = run("y[1, 0] = 50\nraise ValueError('too late')", a_case(), a_case(alias="x"))
    places = [(d.tensor, d.kind, d.row, d.where) for outcome in found for d in outcome.damage]
    assert places == [("y", "output", 1, "inside"), ("x", "output", 1, "inside")]
    assert [outcome.status for outcome in found] == [Status.REJECTED] * 2


def test_a_hang_is_the_cases_outcome(run: RunPython) -> None:
    found = run(CUE.format("time.sleep(1000)"), a_case(), BAD, a_case(), limit=1.0)
    assert [outcome.status for outcome in found] == [Status.RAN, Status.HUNG, Status.RAN]


def test_what_a_kernel_prints_does_not_break_the_protocol(run: RunPython) -> None:
    body = "y.copy_(x)\nprint('KFRS' * 100, flush=True)\nos.write(1, b'KFRS')\nassert sys.stdin.read() == ''"
    assert [outcome.outputs for outcome in run(body, a_case(), a_case())] == [{"y": a_case().inputs["x"].bits}] * 2


def test_killed_workers_lose_no_case(tmp_path: Path, cache: Path) -> None:
    target = python_target(tmp_path, TORCH_HEAD + indented("y.copy_(x)\ntime.sleep(0.01)"))
    with WorkerPool([target], cache=cache) as pool:
        for how in (signal.SIGKILL, signal.SIGTERM):
            batch = pool.submit([a_case()] * 20)
            os.kill(pool.pids[target.id], how)
            found = [each[target.id].outputs for each in pool.collect(batch)]
            assert found == [{"y": a_case().inputs["x"].bits}] * 20
        assert 1 <= pool.restarts[target.id] <= 2


def test_leaving_the_pool_ends_the_workers(tmp_path: Path, cache: Path) -> None:
    target = python_target(tmp_path, TORCH_HEAD + indented("time.sleep(1000)"))
    with WorkerPool([target], cache=cache) as pool:
        (pid,) = pool.pids.values()
        pool.submit([a_case()] * 3)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


TRITON = """
@triton.jit
def program(x_ptr, y_ptr, pitch, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * pitch + column, mask=column < n, other=0.0)
    tl.store(y_ptr + row * n + column, x, mask=column < n)


def rms_norm(x, y, eps, axis):
    if x[0, 0] != x[0, 0]:
        program[(1,)](x, y, x.stride(0), BLOCK=8)
    program[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=8)
"""


@pytest.fixture(params=["interpret", "cuda"])
def triton_device(request: pytest.FixtureRequest) -> Device:
    found: Device = request.param
    return found


def test_a_triton_kernel_runs_as_its_target_says(tmp_path: Path, cache: Path, triton_device: Device) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", triton_device)
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
        outcome = pool.collect(pool.submit([a_case(PITCHED, offset_by_five())]))[0][target.id]
    assert isinstance(status, PythonAttestation)
    assert (status.device, status.mode) == (triton_device, target.mode)
    assert set(status.versions) == {"torch", "triton", "python"}
    assert (outcome.status, outcome.damage) == (Status.RAN, ())
    assert outcome.outputs == {"y": a_case().inputs["x"].bits}


def offset_by_five() -> Layout:
    return contiguous((3, 4), offset=5)


def test_a_triton_program_that_strays_is_named(tmp_path: Path, cache: Path, triton_device: Device) -> None:
    """Its last store has no mask: four elements too many."""
    defect = TRITON.replace("x, mask=column < n)", "x)")
    target = python_target(tmp_path, TRITON_HEAD + defect, "triton", triton_device)
    (outcome,) = outcomes(target, cache, a_case())
    assert [(d.tensor, d.kind, d.row, d.byte, d.where, d.count) for d in outcome.damage] == [
        ("y", "gap", 2, 0, "after", 16)
    ]


def test_an_error_inside_a_triton_program_is_a_crash_with_its_line(
    tmp_path: Path, cache: Path, triton_device: Device
) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", triton_device)
    first, bad, last = outcomes(target, cache, a_case(), BAD, a_case())
    assert (first.status, bad.status, last.status) == (Status.RAN, Status.RAISED, Status.RAN)
    assert "planted.py line 15: program[(1,)](x, y, x.stride(0), BLOCK=8)" in bad.detail


def test_a_wild_address_is_the_cases_outcome(tmp_path: Path, cache: Path, triton_device: Device) -> None:
    far = "program[(1,)](x, y, 1 << 40, x.shape[1], BLOCK=8)"
    text = TRITON.replace("program[(1,)](x, y, x.stride(0), BLOCK=8)", far)
    text = text.replace("row * pitch", "(row + 1) * pitch * (pitch > 9) + row * pitch")
    target = python_target(tmp_path, TRITON_HEAD + text, "triton", triton_device)
    found = outcomes(target, cache, a_case(), BAD, a_case(), BAD)
    assert [outcome.status for outcome in found] == [Status.RAN, Status.DIED, Status.RAN, Status.DIED]
    assert ("illegal memory access" if triton_device == "cuda" else "SIGSEGV") in found[1].detail
    assert found[2].outputs == {"y": a_case().inputs["x"].bits}


def test_what_the_interpreter_gets_wrong_is_said_and_not_run(tmp_path: Path, cache: Path) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", "interpret")
    bf16 = Case(
        "rms_norm", {"axis": 1, "eps": 0.0}, {"x": Tensor("bf16", contiguous((1, 2)), b"\x80\x3f" * 2)},
        {"y": Output("bf16", contiguous((1, 2)))},
    )  # fmt: skip
    wider = replace(target, kernel=replace(target.kernel, capabilities=replace(ANYTHING, dtypes=("f32", "bf16"))))
    with WorkerPool([wider], cache=cache) as pool:
        status = pool.statuses[wider.id]
        refused, ran = (each[wider.id] for each in pool.collect(pool.submit([bf16, a_case()])))
    assert isinstance(status, PythonAttestation)
    assert "Triton's interpreter gets bf16 wrong" in status.not_given["bf16"]
    assert (refused.status, refused.detail) == (Status.NOT_RUN, status.not_given["bf16"])
    assert ran.status is Status.RAN


def test_an_interpreted_target_is_given_small_cases_unless_asked(tmp_path: Path, cache: Path) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", "interpret")
    tall = a_case(contiguous((200, 1)))
    with WorkerPool([target], cache=cache) as pool:
        assert pool.collect(pool.submit([tall, a_case()]))[0] == {}
    with WorkerPool([target], cache=cache, bounded=False) as pool:
        assert pool.collect(pool.submit([tall]))[0][target.id].status is Status.RAN


def test_a_mutant_runs_the_edited_source(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "helper.py").write_text("FACTOR = 1\n")
    target = python_target(tmp_path, "from .helper import FACTOR\n" + TORCH_HEAD + indented("y.copy_(x * FACTOR)"))
    mutant = Mutant(
        "twice", "planted", (("x * FACTOR", "x * 2 * FACTOR"),), ("*",), "always", ("FAIL_NUMERIC",), "none"
    )
    (edited,) = expand([mutant.apply(replace(target.kernel, devices=("cpu",)))], this_host())
    assert edited.id == "torch-twice@cpu"
    with WorkerPool([target, edited], cache=cache) as pool:
        (found,) = pool.collect(pool.submit([a_case()]))
    assert found[target.id].outputs["y"] == a_case().inputs["x"].bits
    assert list(memoryview(found[edited.id].outputs["y"]).cast("f"))[:2] == [2, 4]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import no_such_module\n",
            "planted: planted.py: ModuleNotFoundError: No module named 'no_such_module' (planted",
        ),
        ("def rms_norm(:\n", "SyntaxError"),
        ("def other(): pass\n", "planted: planted.py: it has no function 'rms_norm'"),
    ],
)
def test_a_kernel_that_cannot_be_loaded_is_one_clear_line(tmp_path: Path, cache: Path, text: str, said: str) -> None:
    target = python_target(tmp_path, text)
    with pytest.raises(BuildError) as raised, WorkerPool([target], cache=cache):
        pass
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"digest": "0000"}, "code 0000 was requested"),
        ({"target": "interpret"}, "compiled code was requested, the worker runs interpreted code"),
    ],
)
def test_an_attestation_is_held_to_its_target(
    tmp_path: Path, cache: Path, change: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", "interpret")
    if "digest" in change:
        monkeypatch.setattr("fuzz.execute.python_program.source_digest", lambda text, folder: "0000")
    else:
        monkeypatch.setattr("fuzz.execute.python_target.PythonTarget.mode", "compiled")
    with pytest.raises(AttestationError, match=said), WorkerPool([target], cache=cache):
        pass


def test_a_target_that_finds_no_device_once_started_did_not_run(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = replace(python_target(tmp_path, TORCH_HEAD + indented("y.copy_(x)")), device="cuda")
    if no_cuda_device() is None:
        pytest.skip("there is a CUDA device")
    assert "no CUDA device" in str(target.unavailable())
    monkeypatch.setattr("fuzz.execute.python_target.no_cuda_device", lambda: None)
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, NotRun)
    assert status.reason.startswith("no CUDA device: torch")


def test_cases_launched_together_are_told_apart_when_one_ends_the_process(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where the error of any of them comes with the synchronisation."""
    monkeypatch.setattr("fuzz.execute.python_target.PythonTarget.batched", True)
    target = python_target(tmp_path, TORCH_HEAD + indented(CUE.format("os.abort()")))
    cases = [a_case(), BAD, a_case(), BAD, a_case()]
    ran, died = Status.RAN, Status.DIED
    assert [each.status for each in outcomes(target, cache, *cases)] == [ran, died, ran, died, ran]


def test_a_worker_runs_under_a_tool(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tool prints is kept apart from the frames, and tensors end where their memory does."""
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\necho "========= A TOOL"\nexec "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setattr("fuzz.execute.python_target.PythonTarget.checked", True)
    room = "x.untyped_storage().nbytes() - x.storage_offset() * 4"
    body = f"y.copy_(x)\ny[0, 0] = {room}\nos._exit(7) if x[0, 0] == 9 else 0"
    target = python_target(tmp_path, TORCH_HEAD + indented(body))
    nine = a_case(bits=struct.pack("<12f", *[9] * 12))
    ran, died = outcomes(target, cache, a_case(), nine, tool=(str(tool),))
    assert struct.unpack_from("<f", ran.outputs["y"]) == (48,)
    assert (died.status, died.detail) == (Status.DIED, "ended with exit code 7: ========= A TOOL")


def test_a_missing_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", "interpret")
    monkeypatch.setattr("fuzz.execute.python_target.find_spec", lambda name: None if name == "triton" else name)
    assert target.unavailable() == "triton is not installed: pip install 'kernelfuzz[torch]'"
    monkeypatch.setattr("fuzz.execute.python_target.find_spec", lambda name: None)
    assert target.unavailable() == "torch is not installed: pip install 'kernelfuzz[torch]'"


def test_a_program_that_a_kernel_needs_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = PythonKernel("k", "rms_norm", Path("k.py"), "torch", devices=("cpu",), programs=("g++",))
    (target,) = python_targets([kernel])
    assert target.unavailable() is None
    monkeypatch.setenv("PATH", "/nowhere")
    assert target.unavailable() == "g++ is not installed (apt-get install g++)"
