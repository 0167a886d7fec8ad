"""quantize_rows in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"
_FLAGS = ("-ffp-contract=off",)
_ANYWHERE = Capabilities(dtypes=("f32", "f16", "bf16"), axis="any", strides="any", params=("of_zeros",))
# Each division is rounded once: codes beside a tie are those of the very quotient.
_EXACT = Contract(points={"step": "f32", "ratio": "f32"})
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "layout", "surroundings", "alignment")

KERNELS: tuple[CKernel, ...] = tuple(
    CKernel(
        f"{op.replace('_', '-')}-generic", op, _C / f"{op}.c", "any", _EXACT, _ANYWHERE, _FLAGS, laws=_LAWS,
        summary="one element at a time; any axis and strides",
    )
    for op in ("quantize_rows", "quantize_rows_e4m3")
)  # fmt: skip
