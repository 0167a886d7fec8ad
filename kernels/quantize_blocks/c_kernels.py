"""Rows in blocks with scales of their own, in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["EXACT", "KERNELS"]

_C = Path(__file__).resolve().parent / "c"
_FLAGS = ("-ffp-contract=off",)
# Each step is rounded once: every code follows from the scale that the kernel stores.
EXACT = Contract(points={"edge": "f32", "share": "f32", "quotient": "f32", "ratio": "f32"})
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "layout", "surroundings", "alignment")

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "quantize-mxfp8-generic", "quantize_mxfp8", _C / "quantize_mxfp8.c", "any", EXACT,
        Capabilities(dtypes=("f32", "f16", "bf16"), axis="any", strides="any", params=("scale_rule", "of_infinity")),
        _FLAGS, laws=_LAWS, summary="one element at a time; any axis and strides",
    ),
)  # fmt: skip
