"""Which cases are dispatched to a kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.case import THREADS, Case, Layout, contiguous
from fuzz.core.base.dispatch import SMALL
from fuzz.tests.common.planted import a_case
from oracles.formula.node import Node
from oracles.op import Op
from oracles.operand import Operand

DENSE = contiguous((3, 4))
PITCHED = Layout((3, 4), (7, 1))
BLOCKS = Layout((2, 3, 4), (21, 7, 1))
UNEVEN = Layout((2, 3, 4), (50, 7, 1))
STRIDED = Layout((3, 4), (8, 2))
SHARED = Layout((3, 4), (0, 1))


def _kernel(**able: object) -> CKernel:
    return CKernel("k", "rms_norm", Path("k.c"), capabilities=Capabilities(**able))  # type: ignore[arg-type]


def _case(layout: Layout, **more: object) -> Case:
    return a_case(layout, bits=bytes(4 * layout.size), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strides", "taken"),
    [
        ("contiguous", {DENSE}),
        ("spaced", {DENSE, PITCHED, BLOCKS}),
        ("pitched", {DENSE, PITCHED, BLOCKS, SHARED}),
        ("any", {DENSE, PITCHED, BLOCKS, UNEVEN, STRIDED, SHARED}),
    ],
)
def test_strides(strides: str, taken: set[Layout]) -> None:
    kernel = _kernel(strides=strides)
    layouts = (DENSE, PITCHED, BLOCKS, UNEVEN, STRIDED, SHARED)
    assert {layout for layout in layouts if kernel.capability.accepts(_case(layout))} == taken


def test_extents_of_one_and_none_have_no_stride() -> None:
    for layout in (Layout((1, 4), (99, 1)), Layout((3, 1), (1, 99)), Layout((0, 4), (99, 9))):
        assert _kernel().capability.accepts(_case(layout))


def test_the_output_counts_too() -> None:
    assert _kernel().capability.refusal(a_case(DENSE, PITCHED)) == "y: strides (7, 1)"


def test_a_number_of_threads_is_given_to_torch_alone() -> None:
    case = _case(DENSE)
    case = replace(case, params={**case.params, THREADS: 2})
    python = PythonKernel("k", "rms_norm", Path("k.py"), "torch")
    assert python.capability.accepts(case)
    assert replace(python, framework="triton").capability.refusal(case) == "2 threads"
    assert _kernel().capability.refusal(case) == "2 threads"
    strict = _kernel(outside="rejects").capability
    assert not strict.is_dispatched(case), "C kernels do not hear of it, and cannot reject it"


def test_op_dtype_axis_and_rank() -> None:
    kernel = _kernel()
    case = _case(DENSE)
    assert kernel.capability.refusal(replace(case, op="softmax")) == "op softmax"
    assert kernel.capability.refusal(a_case(dtype="f16")) == "x: dtype f16"
    assert kernel.capability.refusal(replace(case, params={"axis": 0, "eps": 0.0})) == "x: axis is not the last"
    assert kernel.capability.accepts(replace(case, params={"axis": -1, "eps": 0.0}))
    assert _kernel(axis="any").capability.accepts(replace(case, params={"axis": 0, "eps": 0.0}))
    assert kernel.capability.refusal(_case(Layout((1,) * 7, (1,) * 7))) == "x: rank 7"


def test_in_place() -> None:
    assert _kernel().capability.refusal(_case(DENSE, alias="x")) == "y in the memory of x"
    assert _kernel(aliases=(("y", "x"),)).capability.accepts(_case(DENSE, alias="x"))


def test_alignment_is_of_every_row() -> None:
    kernel = _kernel(alignment=16, strides="pitched")
    assert kernel.capability.accepts(_case(DENSE))
    assert not kernel.capability.accepts(_case(contiguous((3, 4), offset=1)))
    assert not kernel.capability.accepts(_case(Layout((3, 4), (5, 1), "before")))
    assert kernel.capability.accepts(_case(Layout((1, 4), (5, 1), "before")))


def test_rows_that_every_case_has_are_not_too_many_for_a_slow_target() -> None:
    """Else a kernel of 24 channels is never run in an interpreter, which is given 12 rows."""

    def doubled(x: Node) -> dict[str, Node]:
        return {"y": x + x}

    x, y = Operand("x", "b c n"), Operand("y", "b c n")
    assert SMALL.most_rows(Op(doubled, (x,), (y,), fixed={"c": 24})) == 24 * SMALL.most_rows(Op(doubled, (x,), (y,)))
