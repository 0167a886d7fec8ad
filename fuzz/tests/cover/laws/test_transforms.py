"""Transforms are recognised by their formulas, and kernels keep the law of impulses unless they are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz.core.adapters.pack import make_known
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.laws.law import LawCheck, first_difference
from fuzz.core.laws.transforms import IMPULSE, Impulses, is_kept, is_transform
from fuzz.references.derive import derive
from fuzz.tests.common.transform_kernels import HIDDEN, by_chirps, by_halves
from fuzz.tests.cover.references.test_transforms import by_cosines, by_tables, of_pairs
from oracles.op import Op

COMPLEX = {"z": "complex64"}


def _known(reference: Callable[..., Any], shapes: str) -> Op:
    op = derive(reference, shapes, dtypes=COMPLEX if "z=" in shapes else None).op
    make_known(op)
    return op


@pytest.fixture(autouse=True)
def _quick(quick_checks: None) -> None:
    """Ops are known no longer afterwards."""


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("reference", "shapes", "is_one"),
    [
        (lambda z: torch.fft.fft(z), "z=b n", True), (lambda x: torch.fft.rfft(x), "x=b n", True),
        (lambda z: torch.fft.fft2(z), "z=b n m", True), (lambda z: torch.fft.fftn(z, dim=(0, 1)), "z=n m", True),
        (lambda z: torch.fft.ifft(torch.fft.fft(z) * 2), "z=b n", True), (by_tables, "x=b n", True),
        (by_cosines, "x=... n", True), (of_pairs, "real=b n, im=b n", True),
        (lambda x: torch.fft.rfft(x).abs(), "x=b n", False), (lambda x, w: x @ w, "x=b n, w=n m", False),
        (lambda z, w: torch.fft.ifft(torch.fft.fft(z) * w), "z=b n, w=n", False),
        (lambda x: x.cumsum(-1), "x=b n", False), (lambda x: torch.fft.fft(x).real + 1, "x=b n", False),
    ],
)  # fmt: skip
def test_a_transform_is_linear_and_held_to_whole_rows(reference: Callable[..., Any], shapes: str, is_one: bool) -> None:
    assert is_transform(_known(reference, shapes)) == is_one


def _case(op: Op, batch: int, n: int, seed: int = 0) -> Case:
    drawn = np.random.default_rng(seed).normal(size=(2, batch, n)).astype(np.float32)
    inputs = {
        each.name: Tensor("f32", contiguous((batch, n)), values.tobytes())
        for each, values in zip(op.inputs, drawn, strict=True)
    }
    return Case(op.name, {}, inputs, {each.name: Output("f32", contiguous((batch, n))) for each in op.outputs})


def _ran(kernel: Callable[..., Any], case: Case) -> dict[str, bytes]:
    real, imag = (np.frombuffer(each.bits, "<f4").reshape(each.layout.shape) for each in case.inputs.values())
    y = np.asarray(kernel((real + 1j * imag).astype(np.complex64)), np.complex64)
    return dict(zip(case.outputs, (y.real.tobytes(), y.imag.tobytes()), strict=True))


def _breaks(kernel: Callable[..., Any], op: Op, n: int, key: int) -> bool:
    case, check = _case(op, 5, n, key), LawCheck(IMPULSE, key)
    assert IMPULSE.applies(case)
    outputs = _ran(kernel, case)
    difference = first_difference(
        case.outputs, check.expected(case, outputs), _ran(kernel, check.twin(case)), check.leeway(case, outputs)
    )
    assert difference is None or "within" in str(difference)
    return difference is not None


def test_right_kernels_keep_the_law_and_wrong_ones_that_no_row_shows_break_it() -> None:
    op = _known(lambda z: torch.fft.fft(z), "z=b n")
    for n in (2, 7, 16, 37, 100, 201):
        for kernel in (np.fft.fft, by_halves, by_chirps):
            assert not any(_breaks(kernel, op, n, key) for key in range(3)), (kernel.__name__, n)
    for kernel in HIDDEN:
        assert all(_breaks(kernel, op, 201, key) for key in range(10)), kernel.__name__


@pytest.mark.some(1)
@pytest.mark.parametrize("kernel", HIDDEN)
def test_a_norm_does_not_show_what_an_impulse_does(kernel: Callable[..., Any]) -> None:
    n, draw = 201, np.random.default_rng(1).normal(size=(2, 201))
    rows = [draw[0] + 1j * draw[1], np.eye(n)[3], np.ones(n), np.exp(2j * np.pi * np.arange(n) * (n // 3) / n)]
    z = np.stack(rows).astype(np.complex64)
    y = torch.from_numpy(np.asarray(kernel(z), np.complex64))
    fuzz.assert_right(y, lambda z: torch.fft.fft(z), (torch.from_numpy(z),))
    op = _known(lambda z: torch.fft.fft(z), "z=b n")
    impulse = Impulses(_case(op, 1, n)).at("z_real", [3])
    assert not is_kept(impulse, _ran(kernel, impulse))


def test_impulses_are_one_to_a_slice_of_a_batch_alone() -> None:
    for shapes, axis, batch in (("z=b n", 1, 3), ("z=n b", 0, 1)):
        op = _known(lambda z, axis=axis: torch.fft.fft(z, dim=axis), shapes)
        assert Impulses(_case(op, 3, 5)).batch == batch


def test_a_kernel_that_is_the_reference_is_never_accused() -> None:
    def unreduced(x: Any) -> Any:  # its angles are no longer exact in long rows
        k = torch.arange(x.shape[-1], dtype=torch.float32)
        angle = 2 * torch.pi * k[:, None] * k / x.shape[-1]
        return torch.stack([x @ torch.cos(angle), x @ torch.sin(angle)], -1)

    op = _known(unreduced, "x=b n")
    assert is_transform(op)
    impulse = Impulses(
        Case(
            op.name,
            {},
            {"x": Tensor("f32", contiguous((1, 101)), bytes(404))},
            {"y": Output("f32", contiguous((1, 101, 2)))},
        )
    ).at("x", [100])
    row = torch.from_numpy(np.frombuffer(impulse.inputs["x"].bits, "<f4").reshape(1, 101).copy())
    assert not is_kept(impulse, {"y": unreduced(row).numpy().tobytes()})
    fuzz.check(unreduced, reference=unreduced, shapes="x=b n", max_cases=40, seed=1)
