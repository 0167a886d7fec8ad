"""What a call of a Python kernel may return and how it may end: every case has an outcome."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from select import select

import pytest

from fuzz.core.base.kernel import PLAIN
from fuzz.core.base.outcome import Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import Judge
from fuzz.tests.common.planted import ANYTHING, a_case
from fuzz.tests.common.python_planted import (
    BAD,
    CUE,
    PITCHED,
    RETURNS_HEAD,
    TORCH_HEAD,
    RunPython,
    indented,
    outcomes,
    python_target,
)
from fuzz.tests.conftest import HANG_S


def test_returned_outputs(run_python: RunPython) -> None:
    cases = [a_case(), a_case(PITCHED), a_case(dtype="f16")]
    for body in (
        "return x.clone()",
        "return {'y': x * 1}",
        "return torch.empty_like(x).requires_grad_().data.copy_(x)",
    ):
        for case, outcome in zip(cases, run_python(body, *cases, head=RETURNS_HEAD), strict=True):
            assert (outcome.status, outcome.outputs) == (Status.RAN, {"y": case.inputs["x"].bits})


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("body", "status", "verdict", "said"),
    [
        ("return x[:, :3]", Status.WRONG_SHAPE, Verdict.FAIL_SHAPE, "the shape of y is [3, 3], must be [3, 4]"),
        ("return x.double()", Status.WRONG_DTYPE, Verdict.FAIL_DTYPE, "the dtype of y is float64, must be float32"),
        ("return {'z': x}", Status.RAISED, Verdict.CRASH, "no parameter 'y' and returned no tensor for it, but dict"),
        ("pass", Status.RAISED, Verdict.CRASH, "returned no tensor for it, but NoneType"),
    ],
)
def test_a_returned_output_that_does_not_fit(
    run_python: RunPython, body: str, status: Status, verdict: Verdict, said: str
) -> None:
    (outcome,) = run_python(body, a_case(), head=RETURNS_HEAD)
    assert outcome.status is status
    assert said in outcome.detail
    assert Judge(a_case()).judge(outcome, PLAIN).verdict is verdict


_NO_RSTD = replace(ANYTHING, takes=("weight",))


@pytest.mark.parametrize("body", ["return x * 1", "return {'y': x * 1}", "return x * 1, x", "y.copy_(x)\nreturn x * 1"])
def test_a_tensor_returned_beside_its_parameter_is_refused(tmp_path: Path, cache: Path, body: str) -> None:
    """To take either for the result would drop the other in silence."""
    target = python_target(tmp_path, TORCH_HEAD + indented(body), capabilities=_NO_RSTD)
    found = outcomes(target, cache, a_case(), a_case(PITCHED))
    assert [outcome.status for outcome in found] == [Status.MISUSED] * 2
    said = "it takes y and also returned a tensor for it: return nothing, or drop the parameter"
    assert [outcome.detail for outcome in found] == [said] * 2
    judgement = Judge(a_case()).judge(found[0], PLAIN)
    assert (judgement.verdict, judgement.is_misuse, judgement.reason) == (Verdict.NOT_RUN, True, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "def undo(of): return lambda *given: of(*given)\n@undo\ndef rms_norm(x, y, eps, axis): y.copy_(x)\n",
            "it cannot be called by keyword: .*; wrap it: def rms_norm(x, eps): return mine(x, eps)",
        ),
        (
            "def rms_norm(x, y, eps, axis): raise RuntimeError('0 active drivers ([]). There should only be one.')\n",
            "Triton finds no GPU here: declare it as PythonKernel(..., 'triton'), "
            "whose target triton@interpret has TRITON_INTERPRET=1",
        ),
    ],
)
def test_a_call_that_can_never_work_says_what_to_write(tmp_path: Path, cache: Path, text: str, said: str) -> None:
    target = python_target(tmp_path, text, "numpy", capabilities=_NO_RSTD)
    (found,) = outcomes(target, cache, a_case())
    assert found.status is Status.MISUSED
    start, _, end = said.partition(".*")
    assert found.detail.startswith(start)
    assert found.detail.endswith(end)


def test_an_argument_that_is_wrong_inside_the_kernel_is_no_misuse(run_python: RunPython) -> None:
    (found,) = run_python("torch.softmax(x, wrong=1)", a_case())
    assert found.status is Status.RAISED


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "back", ["y", "y.copy_(x)", "y.view(-1)", "{'y': y}", "(y, x.sum())", "None", "0", "y.numpy()"]
)
def test_an_output_may_be_returned_by_itself(tmp_path: Path, cache: Path, back: str) -> None:
    target = python_target(tmp_path, TORCH_HEAD + indented(f"y.copy_(x)\nreturn {back}"), capabilities=_NO_RSTD)
    found = outcomes(target, cache, a_case(), a_case(alias="x"))
    assert [outcome.outputs for outcome in found] == [{"y": a_case().inputs["x"].bits}] * 2


def test_an_output_that_the_case_lacks_may_be_returned_all_the_same(run_python: RunPython) -> None:
    """It has no parameter for rstd, which is declared: the tensor is that one, asked for or not."""
    (found,) = run_python("y.copy_(x)\nreturn x.square().mean(-1)", a_case())
    assert found.status is Status.RAN


@pytest.mark.some(10)
@pytest.mark.parametrize(
    ("raising", "status"),
    [
        ("raise ValueError('mine')", Status.REJECTED),
        ("unsupported()", Status.REJECTED),
        ("try: int('a')\nexcept ValueError as error: raise NotImplementedError('mine') from error", Status.REJECTED),
        ("int('a')", Status.RAISED),
        ("try: int('a')\nexcept ValueError: raise", Status.RAISED),
        ("np.zeros(3) + np.zeros(4)", Status.RAISED),
        ("np.array([1.0]).reshape(1, 2)", Status.RAISED),
        ("torch.distributions.Normal(0.0, -1.0)", Status.RAISED),
        ("torch.zeros(2, dtype=torch.float8_e5m2) + 1", Status.RAISED),
        ("json.loads('{')", Status.RAISED),
    ],
)
def test_only_what_the_kernel_itself_raises_rejects_an_input(
    run_python: RunPython, tmp_path: Path, raising: str, status: Status
) -> None:
    """A library's own ValueError, from its Python or its machine code, is a crash of the kernel that called it."""
    (tmp_path / "helper.py").write_text("def unsupported():\n    raise ValueError('mine')\n")
    head = "import json\nimport numpy as np\nfrom .helper import unsupported\n" + TORCH_HEAD
    (found,) = run_python(raising, a_case(), head=head)
    assert found.status is status, found.detail


@pytest.mark.some(2)
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
def test_however_a_call_ends_every_case_has_an_outcome(
    run_python: RunPython, body: str, status: Status, said: str
) -> None:
    found = run_python(CUE.format(body), a_case(), BAD, a_case(), BAD)
    assert [outcome.status for outcome in found] == [Status.RAN, status, Status.RAN, status]
    assert said in found[1].detail
    assert found[2].outputs == {"y": a_case().inputs["x"].bits}
    assert Judge(BAD).judge(found[1], PLAIN).verdict is (
        Verdict.REJECTED if status is Status.REJECTED else Verdict.CRASH
    )


def test_a_rejection_leaves_the_outputs_alone(run_python: RunPython) -> None:
    found = run_python("y[1, 0] = 50\nraise ValueError('too late')", a_case(), a_case(alias="x"))
    places = [(d.tensor, d.kind, d.row, d.where) for outcome in found for d in outcome.damage]
    assert places == [("y", "output", 1, "inside"), ("x", "output", 1, "inside")]
    assert [outcome.status for outcome in found] == [Status.REJECTED] * 2


def test_a_hang_is_the_cases_outcome(run_python: RunPython) -> None:
    found = run_python(CUE.format("time.sleep(1000)"), a_case(), BAD, a_case(), limit=2.0)
    assert [outcome.status for outcome in found] == [Status.RAN, Status.HUNG, Status.RAN]


def test_what_a_kernel_prints_does_not_break_the_protocol(run_python: RunPython) -> None:
    body = "y.copy_(x)\nprint('KFRS' * 100, flush=True)\nos.write(1, b'KFRS')\nassert sys.stdin.read() == ''"
    assert [outcome.outputs for outcome in run_python(body, a_case(), a_case())] == [
        {"y": a_case().inputs["x"].bits}
    ] * 2


def test_killed_workers_lose_no_case(tmp_path: Path, cache: Path) -> None:
    target = python_target(tmp_path, TORCH_HEAD + indented("y.copy_(x)\ntime.sleep(0.01)"))
    with WorkerPool([target], cache=cache) as pool:
        for how in (signal.SIGKILL, signal.SIGTERM):
            batch = pool.submit([a_case()] * 20)
            os.kill(pool.pids[target.id], how)
            found = [each[target.id].outputs for each in batch.outcomes()]
            assert found == [{"y": a_case().inputs["x"].bits}] * 20
        assert 1 <= pool.restarts[target.id] <= 2


def test_leaving_the_pool_ends_the_workers(tmp_path: Path, cache: Path) -> None:
    target = python_target(tmp_path, TORCH_HEAD + indented("time.sleep(1000)"))
    with WorkerPool([target], cache=cache) as pool:
        (pid,) = pool.pids.values()
        worker = os.pidfd_open(pid)  # the number alone may be another process's by then
        pool.submit([a_case()] * 3)
    assert select([worker], [], [], HANG_S)[0] == [worker]
    os.close(worker)


def test_cases_launched_together_are_told_apart_when_one_ends_the_process(tmp_path: Path, cache: Path) -> None:
    """As on a GPU, where the error of any of them comes with the synchronisation."""
    target = replace(python_target(tmp_path, TORCH_HEAD + indented(CUE.format("os.abort()"))), batched=True)
    cases = [a_case(), BAD, a_case(), BAD, a_case()]
    ran, died = Status.RAN, Status.DIED
    assert [each.status for each in outcomes(target, cache, *cases)] == [ran, died, ran, died, ran]
