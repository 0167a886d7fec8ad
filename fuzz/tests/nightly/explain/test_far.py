"""A kernel that counts places in 32 bits is found by a check, and told from one that needs contiguous tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fuzz
from fuzz import formula
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.cuda import no_cuda_device
from fuzz.core.adapters.python_kernel import Device, PythonKernel
from fuzz.tasks.check.setup import GIVEN, Options

_LOOPS = """#include "kernelfuzz.h"
#define AT(t, i, j) (((float *)t.data)[PLACE((i) * t.strides[0] + (j) * t.strides[1])])

int kf_product(const kf_product_call *call) {
    const kf_tensor a = call->a, b = call->b, c = call->c;
    for (int64_t i = 0; i < c.shape[0]; i++)
        for (int64_t j = 0; j < c.shape[1]; j++) {
            float sum = 0;
            for (int64_t p = 0; p < a.shape[1]; p++) sum += AT(a, i, p) * AT(b, p, j);
            AT(c, i, j) = sum;
        }
    return KF_OK;
}
"""


def product(a: Any, b: Any) -> Any:
    return {"c": formula.dot(a, b, "k")}


_PRODUCT = fuzz.Op(
    product,
    inputs=(fuzz.Operand("a", "m k"), fuzz.Operand("b", "k n")),
    outputs=(fuzz.Operand("c", "m n"),),
)


@pytest.mark.parametrize("place", ["(int32_t)", ""])
def test_places_of_32_bits_are_found_and_those_of_64_pass(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=5.0))
    (tmp_path / "loops.c").write_text(f"#define PLACE(at) {place}(at)\n{_LOOPS}")
    kernel = CKernel(
        "loops", "product", tmp_path / "loops.c", contract=fuzz.Contract(sums={"k": fuzz.Sequential()}),
        capabilities=fuzz.Capabilities(strides="any"),
    )  # fmt: skip
    if not place:
        fuzz.check(kernel, op=_PRODUCT, max_cases=100, seed=1)
        return
    with pytest.raises(fuzz.CheckFailed, match=r"needs all of [ab] within 2\^31 elements"):
        fuzz.check(kernel, op=_PRODUCT, max_cases=100, seed=1)


_PROGRAM = """import torch
import triton
import triton.language as tl


@triton.jit
def program(x_ptr, y_ptr, x_pitch, x_step, y_pitch, y_step, n, BLOCK: tl.constexpr):
    row = tl.program_id(0){wide}
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_pitch + column * x_step, mask=column < n, other=0.0)
        tl.store(y_ptr + row * y_pitch + column * y_step, 2.0 * x, mask=column < n)


def twice(x, y):
    if y.numel():
        program[(x.shape[0],)](x, y, *x.stride(), *y.stride(), x.shape[1], BLOCK=32)
"""


def twice(x: Any) -> Any:
    return {"y": 2.0 * x}


_TWICE = fuzz.Op(twice, inputs=(fuzz.Operand("x", "m n"),), outputs=(fuzz.Operand("y", "m n"),))


@pytest.mark.parametrize("device", ["interpret", "cuda"])
@pytest.mark.parametrize("wide", ["", ".to(tl.int64)"])
def test_rows_of_triton_that_are_counted_in_32_bits_are_found(
    wide: str, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton multiplies in 32 bits where both numbers fit into them. On a GPU what lies between rows does not exist."""
    if device == "cuda" and (missing := no_cuda_device()) is not None:
        pytest.skip(missing)
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=10.0))
    (tmp_path / "rows.py").write_text(_PROGRAM.format(wide=wide))
    kernel = PythonKernel(
        "rows",
        "twice",
        tmp_path / "rows.py",
        "triton",
        capabilities=fuzz.Capabilities(strides="any"),
        devices=(device,),
    )  # fmt: skip
    if wide:
        fuzz.check(kernel, op=_TWICE, max_cases=100, seed=1)
        return
    with pytest.raises(fuzz.CheckFailed, match=r"needs all of [xy] within\s+2\^31\s+elements") as failed:
        fuzz.check(kernel, op=_TWICE, max_cases=100, seed=1)
    print(failed.value)
