"""A kernel that counts places in 32 bits is found by a check, and told from one that needs contiguous tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fuzz
from fuzz import formula
from fuzz.core.adapters.c_kernel import CKernel
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
