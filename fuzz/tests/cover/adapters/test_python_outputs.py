"""What a Python kernel hands over is read whatever its strides are; what our own part of the worker raises is ours."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fuzz
from fuzz.campaign.search.runner import Runner
from fuzz.campaign.search.stopping import SessionLimits
from fuzz.core.base.case import Case, Layout, Output, Tensor, contiguous
from fuzz.core.base.errors import InternalError
from fuzz.core.base.kernel import PLAIN
from fuzz.core.base.outcome import Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import Judge
from fuzz.core.transport.python.arrays import NumpyArrays
from fuzz.findings.book import book_in
from fuzz.tasks.check.setup import GIVEN, Options
from fuzz.tests.common.planted import ANYTHING, a_case
from fuzz.tests.common.python_planted import RETURNS_HEAD, RunPython, python_target

_ONE = struct.pack("f", 2.5)
_ONE_ELEMENT = Case(
    "rms_norm", {"eps": 0.5, "axis": -1}, {"x": Tensor("f32", Layout((1,), (3,)), _ONE)},
    {"y": Output("f32", contiguous((1,)))},
)  # fmt: skip


_VALUES = np.frombuffer(a_case().inputs["x"].bits, "f4").reshape(3, 4)


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("body", "case", "expected"),
    [
        ("x", _ONE_ELEMENT, _ONE),
        ("x[:, :1].expand(3, 4)", a_case(), np.repeat(_VALUES[:, :1], 4, 1).tobytes()),
        ("x[0].expand(3, 4)", a_case(), np.repeat(_VALUES[:1], 3, 0).tobytes()),
        ("torch._neg_view(x.t().contiguous().t())", a_case(), (-_VALUES).tobytes()),
    ],
    ids=("one element", "repeated columns", "repeated rows", "negative view"),
)
def test_a_returned_tensor_may_have_any_strides(run_python: RunPython, body: str, case: Case, expected: bytes) -> None:
    """One element counts as contiguous with any stride; and an expanded tensor has strides of 0."""
    (found,) = run_python(f"return {body}", case, head=RETURNS_HEAD)
    assert (found.status, found.outputs) == (Status.RAN, {"y": expected}), found.detail


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("x.to_sparse()", "a sparse_coo tensor has no elements in memory"),
        ("x.to('meta')", "a meta tensor has no elements in memory"),
        ("Sulky(x)", "Sulky refuses"),
    ],
)
def test_a_returned_tensor_that_cannot_be_read_is_the_kernels(run_python: RunPython, body: str, said: str) -> None:
    sulky = """
class Sulky(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        if function is torch.Tensor.detach:
            raise RuntimeError("Sulky refuses")
        return super().__torch_function__(function, types, arguments, named or {})


def rms_norm("""
    (found,) = run_python(f"return {body}", a_case(), head=RETURNS_HEAD.replace("\n\ndef rms_norm(", sulky))
    assert found.status is Status.RAISED
    assert said in found.detail


_NO_RSTD, _ROWS = replace(ANYTHING, takes=("weight",)), replace(ANYTHING, takes=())
_BREAKS = """
from fuzz.core.transport.python import {module} as ours


def rms_norm(x, y, eps, axis):
    y[...] = x
    ours.{name} = None
    return y
"""


@pytest.mark.some(9)
@pytest.mark.parametrize(
    "place",
    [
        "attempt._damages", "attempt.poisoned", "attempt.Attempt.collect", "attempt.Attempt._returned_twice",
        "attempt.slabs", "arrays.NumpyArrays.view", "arrays.NumpyArrays.same_place", "arrays.NumpyArrays.owns",
        "arrays.NumpyArrays.threads", "slab.Slab.elements", "slab.Slab.after", "memory.Arena.place",
        "memory.Arena.touched", "memory.Arena.watch", "memory.Arena.release", "answer.np",
        "state.ProcessState.changes", "state.MemoryWatch.leak",
    ],
)  # fmt: skip
def test_what_our_part_of_the_worker_raises_is_no_crash_of_the_kernel(tmp_path: Path, cache: Path, place: str) -> None:
    """Each place that handles a call and its outputs, with nothing in its place."""
    module, name = place.split(".", 1)
    target = python_target(tmp_path, _BREAKS.format(module=module, name=name), "numpy", capabilities=_NO_RSTD)
    with WorkerPool([target], cache=cache) as pool:
        first, second = (each[target.id] for each in pool.submit([a_case(), a_case()]).outcomes())
    assert Status.OURS in (first.status, second.status)
    assert {first.status, second.status} <= {Status.OURS, Status.RAN}
    ours = first if first.status is Status.OURS else second
    assert "the worker failed: " in ours.detail
    assert "'NoneType' object " in ours.detail
    with pytest.raises(InternalError, match="the worker failed"):
        Judge(a_case()).judge(ours, PLAIN)


def test_an_error_of_our_worker_is_said_with_its_case_and_no_finding(tmp_path: Path, cache: Path) -> None:
    target = python_target(
        tmp_path, _BREAKS.format(module="attempt", name="Attempt.collect"), "numpy", capabilities=_ROWS
    )
    with WorkerPool([target], cache=cache) as pool:
        runner = Runner(pool, [target], SessionLimits(max_cases=4), book_in(tmp_path / "findings", 1))
        tally = runner.run("rms_norm", 3)
    assert (tally.findings, runner.book.buckets) == (0, {})
    assert re.search(
        r"internal error: numpy-planted@cpu: the worker failed: .*; the case is kept as (\S+);", runner.book.errors[0]
    )


def test_an_error_of_ours_in_a_check_is_no_failure_of_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=0.0))
    monkeypatch.setattr(NumpyArrays, "bits", None)
    with pytest.raises(fuzz.CheckFailed, match=r"^internal error: .*NoneType.*the case is kept as "):
        fuzz.check(lambda x, eps: x.copy(), op="rms_norm", arrays="numpy", max_cases=3, seed=1)


@pytest.mark.whole
def test_a_right_function_that_keeps_the_strides_of_its_input_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def softmax(x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, max(x.shape[-1], 1))
        return torch.empty_like(rows).copy_(torch.softmax(rows.float(), -1)).reshape(x.shape)

    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=0.0))
    fuzz.check(softmax, op="softmax", capabilities=fuzz.Capabilities(strides="any"), seed=1, max_cases=150)
