"""int4_matmul in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "int4-matmul-generic", "int4_matmul", _C / "int4_matmul.c", "any", Contract(algorithm={"c": "by groups"}),
        Capabilities(
            dtypes=("f32", "f16", "bf16"), strides="any", takes=("zero_point",),
            mixed=(("scale", ("x", "f32")), ("c", ("x", "f32"))),
        ),
        ("-ffp-contract=off",), laws=("rerun", "scaling", "sign_flip", "layout", "surroundings", "alignment"),
        summary="one element at a time, the sum of each group times its scale; any strides",
    ),
)  # fmt: skip
