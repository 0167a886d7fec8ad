"""grouped_matmul and grouped_rows_matmul in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "grouped-matmul-generic", "grouped_matmul", _C / "grouped_matmul.c", "any", Contract(),
        Capabilities(
            dtypes=("f32", "f16", "bf16"), strides="any", takes=("collected",), aliases=(("c", "collected"),),
            mixed=(("offs", ("int32", "int64")), ("collected", ("a", "f32")), ("c", ("a", "f32"))), checks=("offs",),
        ),
        ("-ffp-contract=off",),
        laws=("rerun", "scaling", "sign_flip", "layout", "surroundings", "alignment", "in_place"),
        summary="one element at a time, the terms of its group one after the other; any strides",
    ),
    CKernel(
        "grouped-rows-matmul-generic", "grouped_rows_matmul", _C / "grouped_rows_matmul.c", "any", Contract(),
        Capabilities(
            dtypes=("f32", "f16", "bf16"), strides="any", takes=("bias",),
            mixed=(("offs", ("int32", "int64")), ("bias", ("a", "f32")), ("c", ("a", "f32"))), checks=("offs",),
        ),
        ("-ffp-contract=off",),
        laws=("rerun", "scaling", "sign_flip", "layout", "surroundings", "alignment"),
        summary="one element at a time, by the matrix of its row's group; any strides",
    ),
)  # fmt: skip
