"""Every kernel of the pack on every target that runs here, against float64 with a loose bound.

The bound only catches what is plainly wrong; the tight judgement is the oracle's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz import CKernel
from fuzz.core.adapters.c import CAttestation
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Attestation, NotRun, Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, Guard, Layout, Output, Tensor, contiguous
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.pool import WorkerPool

PACK = load(Path(__file__).resolve().parents[2])
KERNELS = [kernel for kernel in PACK.kernels if isinstance(kernel, CKernel) and kernel.op == "rms_norm"]
TARGETS = {target.id: target for target in expand(KERNELS, this_host())}
NUMPY = {"f32": "<f4", "f16": "<f2"}
TOLERANCE = {"f32": 1e-5, "f16": 1e-3}
PLACES: tuple[tuple[Guard, int], ...] = (("after", 0), ("after", 3), ("before", 0), ("before", 7))
LENGTHS = (*range(1, 70), 95, 127, 128, 255, 256, 257, 513, 1031, 2880)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(list(TARGETS.values())) as pool:
        yield pool


def a_case(
    x: Layout,
    y: Layout | None = None,
    *,
    dtype: str = "f32",
    axis: int = -1,
    eps: float = 1e-5,
    alias: str | None = None,
) -> Case:
    rng = np.random.default_rng(sum(x.shape))
    data = (rng.standard_normal(x.shape) * 3).astype(NUMPY[dtype])
    layout = y or (x if alias else contiguous(x.shape))
    tensor, output = Tensor(dtype, x, data.tobytes()), Output(dtype, layout, alias)
    return Case("rms_norm", {"axis": axis, "eps": eps}, {"x": tensor}, {"y": output})


def expected(case: Case) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    x = case.inputs["x"]
    values = np.frombuffer(x.bits, NUMPY[x.dtype]).astype(np.float64).reshape(x.layout.shape)
    mean = np.mean(values * values, axis=int(case.params["axis"]), keepdims=True)
    return np.asarray(values / np.sqrt(mean + np.float32(case.params["eps"])))


def check(case: Case, outcomes: dict[str, Outcome]) -> None:
    dtype = case.outputs["y"].dtype
    for target, outcome in outcomes.items():
        if not TARGETS[target].kernel.capability.accepts(case):
            assert outcome.status is Status.REJECTED, (target, outcome)
            continue
        assert outcome.status is Status.RAN, (target, outcome)
        assert (outcome.damage, outcome.unwritten) == ((), ()), (target, outcome)
        got = np.frombuffer(outcome.outputs["y"], NUMPY[dtype]).reshape(case.outputs["y"].layout.shape)
        bound = TOLERANCE[dtype]
        np.testing.assert_allclose(got, expected(case), rtol=bound, atol=bound / 100, err_msg=target)


def run_all(pool: WorkerPool, cases: list[Case]) -> list[dict[str, Outcome]]:
    results = pool.submit(cases).outcomes()
    for case, outcomes in zip(cases, results, strict=True):
        check(case, outcomes)
    return results


def live(pool: WorkerPool) -> set[str]:
    return {target for target, status in pool.statuses.items() if isinstance(status, Attestation)}


def test_every_target_has_a_status_and_the_right_vectors(pool: WorkerPool) -> None:
    assert set(pool.statuses) == set(TARGETS)
    broken = {name for name, status in pool.statuses.items() if isinstance(status, NotRun) and status.broken}
    # The assembler of clang 14 cannot be told of RISC-V's vectors.
    assert not {name for name in broken if "riscv64,clang" not in name}, "whichever compilers are there build it"
    for name in live(pool):
        target: Target = TARGETS[name]
        status = pool.statuses[name]
        assert isinstance(status, CAttestation)
        assert status.flags == " ".join(target.flags)
        assert not status.flushes
        assert {setting.word: value for setting, value in target.settings}.items() <= status.settings.items()
        assert (status.emulator == "none") == (not target.emulated)  # RISC-V has nothing that tells an emulator's name
        assert status.compiler.startswith(target.name.compiler)


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_every_length_and_every_tail(pool: WorkerPool, dtype: str) -> None:
    results = run_all(pool, [a_case(contiguous((2, n)), dtype=dtype) for n in LENGTHS])
    assert all(set(outcomes) == live(pool) for outcomes in results), "every live target runs every row"


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_in_place_pitch_and_alignment(pool: WorkerPool, dtype: str) -> None:
    layouts = [
        Layout((3, n), (n + gap, 1), guard, offset)
        for n in (1, 5, 33, 127)
        for gap in (0, 1, 9)
        for guard, offset in PLACES
    ]
    cases = [a_case(layout, layout, dtype=dtype) for layout in layouts]
    results = run_all(pool, cases + [a_case(layout, dtype=dtype, alias="x") for layout in layouts])
    assert all(set(outcomes) == live(pool) for outcomes in results)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_any_axis_and_any_strides(pool: WorkerPool, dtype: str) -> None:
    cases = [
        a_case(contiguous((5, 7, 3)), dtype=dtype, axis=0),
        a_case(contiguous((5, 7, 3)), dtype=dtype, axis=1),
        a_case(Layout((6, 5), (1, 6)), contiguous((6, 5)), dtype=dtype, axis=1),
        a_case(Layout((6, 5), (-5, -1)), Layout((6, 5), (12, -2)), dtype=dtype, axis=1),
        a_case(contiguous((2, 1, 3, 1, 2, 4)), dtype=dtype, axis=2),
        a_case(contiguous((9,)), dtype=dtype, axis=0),
    ]
    results = run_all(pool, cases)
    kernels = {TARGETS[target].kernel.name for outcomes in results for target in outcomes}
    assert {"composed", "dispatch"} <= {TARGETS[target].kernel.name for target in results[0]} <= kernels


def test_empty_tensors(pool: WorkerPool) -> None:
    for shape in ((0, 4), (3, 0)):
        (outcomes,) = pool.submit([a_case(contiguous(shape))]).outcomes()
        assert {outcome.status for outcome in outcomes.values()} == {Status.RAN}


def test_what_a_kernel_does_not_take_it_rejects() -> None:
    """Given everything, the row-wise kernels reject another axis, stride or dtype, having written nothing."""
    anything = replace(KERNELS[1].capabilities, dtypes=("f16", "f32", "bf16", "f64"))
    row_wise = [kernel for kernel in KERNELS if kernel.capabilities.strides == "rows"]
    strict = [replace(kernel, capabilities=anything) for kernel in row_wise]
    transposed = a_case(Layout((6, 5), (1, 6)), axis=1)
    doubles = Case(
        "rms_norm", {"axis": 0, "eps": 0.0},
        {"x": Tensor("f64", contiguous((4,)), bytes(32))}, {"y": Output("f64", contiguous((4,)))},
    )  # fmt: skip
    cases = [a_case(contiguous((5, 7)), axis=0), transposed, doubles]
    with WorkerPool([t for t in expand(strict, this_host()) if t.name.opt == "O2"]) as pool:
        for outcomes in pool.submit(cases).outcomes():
            assert {outcome.status for outcome in outcomes.values()} == {Status.REJECTED}
            assert all(not outcome.damage for outcome in outcomes.values())
