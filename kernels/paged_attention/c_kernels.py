"""paged_attention in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"
_PLACES = ("int32", "int64")

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "paged-attention-generic", "paged_attention", _C / "paged_attention.c", "any", Contract(),
        Capabilities(
            dtypes=("f32", "f16", "bf16"), strides="any", takes=("lse",),
            mixed=(("table", _PLACES), ("lengths", _PLACES), ("o", ("q", "f32"))), checks=("table", "lengths"),
        ),
        ("-ffp-contract=off",), laws=("rerun", "layout", "surroundings", "alignment"),
        summary="page by page, all scores of a query, then their shares; any strides",
    ),
)  # fmt: skip
