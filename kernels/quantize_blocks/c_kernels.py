"""Rows in blocks with scales of their own, in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["EXACT_MXFP8", "EXACT_NVFP4", "KERNELS"]

_C = Path(__file__).resolve().parent / "c"
_FLAGS = ("-ffp-contract=off",)
# Each step is rounded once: every code follows from the scale that the kernel stores.
EXACT_MXFP8 = Contract(points=dict.fromkeys(("edge", "share", "quotient", "ratio"), "f32"))
EXACT_NVFP4 = Contract(points=dict.fromkeys(("share", "units", "steps", "kept", "step", "ratio"), "f32"))
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "layout", "surroundings", "alignment")

KERNELS: tuple[CKernel, ...] = (
    *(
        CKernel(
            f"{op.replace('_', '-')}-generic", op, _C / "quantize_mxfp8.c", "any", EXACT_MXFP8,
            Capabilities(
                dtypes=("f32", "f16", "bf16"), axis="any", strides="any", params=("scale_rule", "of_infinity")
            ),
            flags, laws=_LAWS, summary="one element at a time; any axis and strides",
        )
        for op, flags in (("quantize_mxfp8", _FLAGS), ("quantize_mxfp8_e5m2", (*_FLAGS, "-DE5M2")))
    ),
    CKernel(
        "quantize-nvfp4-generic", "quantize_nvfp4", _C / "quantize_nvfp4.c", "any", EXACT_NVFP4,
        Capabilities(dtypes=("f32", "f16", "bf16"), axis="any", strides="any", params=("least_scale",)),
        _FLAGS, laws=_LAWS, summary="a pair of elements at a time; any axis and strides",
    ),
)  # fmt: skip
