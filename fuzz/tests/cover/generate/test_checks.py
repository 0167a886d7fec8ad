"""Cases that a file may hold: which shapes a tensor may have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.core.adapters.pack import built_in, load
from fuzz.core.base.case import Case, CaseError, Tensor, contiguous
from fuzz.core.base.validity import check_case
from fuzz.tests.common.handmade import a_case


def _with_weight(shape: tuple[int, ...], op: str = "rms_norm", axis: int = 2) -> Case:
    case = a_case(op, grid=(2, 3, 5), axis=axis)
    layout = contiguous(shape)
    return replace(case, inputs={**case.inputs, "weight": Tensor("f32", layout, bytes(4 * layout.size))})


@pytest.mark.parametrize(
    ("shape", "axis"), [((5,), 2), ((1, 5), 2), ((3, 5), 2), ((3,), 1), ((5, 3), 1), ((1, 2), 0), ((5, 2), 0)]
)
def test_a_weight_may_have_rows_for_the_axis_beside(shape: tuple[int, ...], axis: int) -> None:
    check_case(_with_weight(shape, axis=axis))


@pytest.mark.parametrize("shape", [(2, 5), (5, 3), (6, 5), (1, 1, 5), ()])
def test_other_shapes_are_refused_with_what_they_may_be(shape: tuple[int, ...]) -> None:
    with pytest.raises(CaseError, match=r"inputs\.weight: shape .*, must be \(5,\) or \(1, 5\) or \(3, 5\)$"):
        check_case(_with_weight(shape))


def test_a_case_may_give_a_gradient_the_rows_of_weights_that_it_must_reject() -> None:
    case = a_case("rms_norm_backward", ("weight",), grid=(2, 3, 5), layout=contiguous)
    case = replace(case, inputs={**case.inputs, "weight": Tensor("f32", contiguous((3, 5)), bytes(60))})
    check_case(case)
    for kernel in load(built_in()).kernels:
        if kernel.op == case.op and "weight" in kernel.able.optional:
            assert kernel.capability.refusal(case) == "weight: rank 2", kernel.name


@pytest.mark.parametrize("threads", [0, 65, 2.0, -1])
def test_a_number_of_threads_is_a_small_integer(threads: float) -> None:
    case = a_case("rms_norm")
    check_case(replace(case, params={**case.params, "threads": 2}))
    with pytest.raises(CaseError, match=r"params\.threads: .* is not an integer from 1 to 64$"):
        check_case(replace(case, params={**case.params, "threads": threads}))
