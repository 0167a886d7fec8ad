"""topk_softmax and softmax_of_topk in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"
_FLAGS = ("-ffp-contract=off",)
_ANYWHERE = Capabilities(
    dtypes=("f32", "f16", "bf16"), axis="any", strides="any",
    mixed=(("weight", ("f32", "x")), ("expert", ("int64", "int32"))),
)  # fmt: skip
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "layout", "surroundings", "alignment")

KERNELS: tuple[CKernel, ...] = tuple(
    CKernel(
        f"{op.replace('_', '-')}-generic", op, _C / f"{op}.c", "any", Contract(),
        Capabilities(_ANYWHERE.dtypes, axis="any", strides="any", mixed=_ANYWHERE.mixed, params=params),
        _FLAGS, laws=_LAWS, summary="one element at a time; any axis and strides",
    )
    for op, params in (("topk_softmax", ("renormalise",)), ("softmax_of_topk", ()))
)  # fmt: skip
