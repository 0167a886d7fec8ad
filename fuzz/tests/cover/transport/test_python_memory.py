"""What a Python kernel is given, and what padded memory tells of what it did there."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest

from fuzz.core.base.case import Case, Guard, Layout, Output, Tensor, contiguous
from fuzz.core.base.kernel import PLAIN
from fuzz.core.base.outcome import Damage, Status, Unwritten
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judge
from fuzz.core.transport.python.arrays import NumpyArrays
from fuzz.core.transport.python.attempt import CaseRunner
from fuzz.core.transport.python.memory import FreshMemory
from fuzz.core.transport.records import NOT_BUILT, RAN
from fuzz.tests.common.planted import a_case
from fuzz.tests.common.python_planted import BEFORE, PITCHED, RunPython


def _stray(tensor: str, at: int) -> str:
    """Write one element `at` elements from the first one of a tensor."""
    return f"torch.as_strided({tensor}, (1,), (1,), {tensor}.storage_offset() + {at}).fill_(1)"


def test_a_correct_kernel_is_left_alone(run_python: RunPython) -> None:
    layouts = (contiguous((3, 4)), BEFORE, PITCHED, Layout((3, 4), (1, 3), offset=5), Layout((3, 4), (9, 2), "before"))
    cases = [a_case(layout, layout) for layout in layouts]
    for case, outcome in zip(cases, run_python("y.copy_(x)", *cases), strict=True):
        assert (outcome.status, outcome.damage, outcome.unwritten) == (Status.RAN, (), ())
        assert outcome.outputs == {"y": case.inputs["x"].bits}


def test_the_kernel_sees_the_case(run_python: RunPython) -> None:
    x, y = Layout((1, 2, 3), (50, 0, 2), "before", 3), Layout((1, 13), (2, 2))
    bits = a_case(Layout((1, 3), (3, 1))).inputs["x"].bits * 2
    case = Case("rms_norm", {"axis": 1, "eps": 0.5}, {"x": Tensor("f32", x, bits)}, {"y": Output("f32", y)})
    body = "y[0] = torch.tensor([x.ndim, *x.shape, *x.stride(), axis, eps, *x[0, 1], x.is_floating_point()]).float()"
    (outcome,) = run_python(body, case)
    assert list(memoryview(outcome.outputs["y"]).cast("f")) == [3, 1, 2, 3, 50, 0, 2, 1, 0.5, 1, 2, 3, 1]
    assert (outcome.damage, outcome.unwritten) == ((), ())


class _NoHalves(NumpyArrays):
    """Arrays of a framework that lacks a dtype."""

    dtypes: Mapping[str, Any] = {k: v for k, v in NumpyArrays.dtypes.items() if k != "f16"}


class _Copying:
    returns: Collection[str] = ()

    def takes(self, name: str) -> bool:
        return name == "y"

    def is_own(self, error: BaseException) -> bool:
        return False

    def call(self, tensors: Mapping[str, Any], params: Mapping[str, float | int], way: object = None) -> None:
        tensors["y"][...] = tensors["x"]


def test_a_case_of_a_dtype_that_the_framework_lacks_is_not_run() -> None:
    runs = CaseRunner(_Copying(), _NoHalves(), FreshMemory(64))
    (_, plain, _), (_, lacking, _) = runs.answers([(a_case(), False), (a_case(dtype="f16"), False)])
    assert (plain.status, lacking.status) == (RAN, NOT_BUILT)
    assert lacking.words == "numpy has no float16"
    assert lacking.damages == ()


class _Returning(_Copying):
    """Returns its result in memory that is then handed out again, with other memory."""

    returns = ("y",)

    def __init__(self, result: Any) -> None:
        self.result = result

    def takes(self, name: str) -> bool:
        return False

    def call(self, tensors: Mapping[str, Any], params: Mapping[str, float | int], way: object = None) -> Any:
        return self.result


class _Handing:
    """NumPy, but that its new memory is some that was used before."""

    def __init__(self, *pieces: Any) -> None:
        self._pieces = [*pieces]

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: tuple[int], dtype: Any) -> Any:
        piece = self._pieces.pop(0)
        assert (piece.shape, piece.dtype) == (shape, dtype)
        return piece


@pytest.mark.parametrize("value", [1.5, 0.0], ids=["numbers", "zeros"])
def test_what_was_returned_is_overwritten_where_it_may_be_handed_out_again(value: float) -> None:
    layout, size = contiguous((512, 256)), 512 * 256 * 4
    result = np.full((512, 256), value, np.float32)
    kept, older = result.reshape(-1).view(np.uint8), np.full(size, 7, np.uint8)
    fresh = [np.zeros(size, np.uint8) for _ in range(6)]
    arrays = NumpyArrays()
    arrays.library = _Handing(kept, older, *fresh)
    case = Case("rms_norm", {"axis": 1, "eps": 0.5}, {}, {"y": Output("f32", layout)})
    [(_, answer, _)] = CaseRunner(_Returning(result), arrays, FreshMemory(64)).answers([(case, False)])
    assert (answer.status, answer.outputs["y"]) == (RAN, np.full((512, 256), value, np.float32).tobytes())
    assert kept.tolist() == older.tolist() == [255] * size
    assert {int(each[0]) for each in fresh} == ({255} if value == 0.0 else {0})  # what is new takes no time


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("guard", ["after", "before"])
def test_every_address_is_the_one_that_the_case_asks_for(run_python: RunPython, dtype: str, guard: Guard) -> None:
    size = 4 if dtype == "f32" else 2
    layouts = [contiguous((1, 3), guard, offset) for offset in range(64 // size)]
    seen = run_python("y.fill_(x.data_ptr() % 64)", *[a_case(layout, contiguous((1, 3)), dtype) for layout in layouts])
    kind = "<f" if dtype == "f32" else "<e"
    found = [struct.unpack_from(kind, outcome.outputs["y"])[0] for outcome in seen]
    assert found == [layout.alignment(size) for layout in layouts]
    assert len(set(found)) == 64 // size


@pytest.mark.parametrize(
    ("strays", "case", "damage"),
    [
        ([("y", 14)], a_case(y=BEFORE), Damage("y", "gap", 2, 8, "after", 4)),
        ([("y", -2), ("y", -1)], a_case(), Damage("y", "gap", 0, -4, "before", 8)),
        ([("y", 12)], a_case(y=contiguous((3, 4), offset=3)), Damage("y", "gap", 2, 0, "after", 4)),
        ([("y", 12)], a_case(y=PITCHED), Damage("y", "gap", 1, 48, "inside", 4)),
        ([("x", 5)], a_case(), Damage("x", "input", 1, 22, "inside", 4)),
        ([("x", 12)], a_case(BEFORE), Damage("x", "gap", 2, 0, "after", 4)),
    ],
)
def test_a_stray_write_is_named(
    run_python: RunPython, strays: list[tuple[str, int]], case: Case, damage: Damage
) -> None:
    (outcome,) = run_python("\n".join(["y.copy_(x)", *(_stray(*stray) for stray in strays)]), case)
    assert [(d.tensor, d.kind, d.row, d.byte, d.where) for d in outcome.damage] == [
        (damage.tensor, damage.kind, damage.row, damage.byte, damage.where)
    ]
    assert 1 <= outcome.damage[0].count <= damage.count  # bytes that happen to be those of the poison do not differ
    verdict = Judge(case).judge(outcome, PLAIN).verdict
    assert verdict is (Verdict.FAIL_INPUT_MODIFIED if damage.kind == "input" else Verdict.FAIL_MEMORY)


def test_outputs_in_place(run_python: RunPython) -> None:
    cases = [a_case(layout, alias="x") for layout in (contiguous((3, 4)), PITCHED)]
    bits = [outcome.outputs["y"] for outcome in run_python("assert y.data_ptr() == x.data_ptr()\ny.mul_(2)", *cases)]
    doubled = [value * 2 for value in memoryview(cases[0].inputs["x"].bits).cast("f")]
    assert [list(memoryview(each).cast("f")) for each in bits] == [doubled] * 2


def test_unwritten_elements_are_counted_and_results_that_look_like_poison_are_not(run_python: RunPython) -> None:
    (missed, none, same) = (
        *run_python("y[:2].copy_(x[:2])", a_case()),
        *run_python("pass", a_case(y=PITCHED)),
        *run_python("y.view(torch.int32).fill_(0x7FFD7FFD)", a_case()),
    )
    assert missed.unwritten == (Unwritten("y", 8, 4),)
    assert none.unwritten == (Unwritten("y", 0, 12),)
    assert same.unwritten == ()


def test_a_second_run_can_be_asked_for(run_python: RunPython) -> None:
    body = "y.copy_(x)\nif hasattr(torch, 'called'): y.view(-1)[0] = 7\ntorch.called = True"
    assert run_python(body, a_case(), second_run=True)[0].outputs["y"] == a_case().inputs["x"].bits
    stray = f"y.copy_(x)\nif hasattr(torch, 'called'): {_stray('y', 12)}\ntorch.called = True"
    assert run_python(stray, a_case(y=BEFORE), second_run=True)[0].damage
