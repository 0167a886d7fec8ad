"""Sums, means, greatest elements, variances and logarithms of sums of exponentials of rows in C, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)

# Rows are independent, read where they lie and summed in an order that only their length decides.
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "layout", "surroundings", "alignment")
_ANYWHERE = Capabilities(dtypes=("f32", "f16", "bf16"), axis="any", strides="any", mixed=(("y", ("x", "f32")),))

_GRADIENT = replace(_ANYWHERE, mixed=(("dy", ("x", "f32")), ("dx", ("x", "f32"))), aliases=(("dx", "x"),))


def _kernel(op: str, able: Capabilities, *laws: str) -> CKernel:
    name = f"{op.replace('_', '-')}-generic"
    return CKernel(
        name, op, _C / f"{op}.c", "any", Contract(), able, _FLAGS, laws=(*_LAWS, *laws),
        summary="one element at a time; any axis and strides",
    )  # fmt: skip


KERNELS: tuple[CKernel, ...] = (
    _kernel("row_sum", _ANYWHERE, "scaling", "sign_flip"),
    _kernel("row_mean", _ANYWHERE, "scaling", "sign_flip"),
    _kernel("row_max", _ANYWHERE, "scaling"),
    _kernel("row_var", _ANYWHERE, "scaling"),
    _kernel("logsumexp", _ANYWHERE),
    _kernel("row_sum_backward", _GRADIENT, "scaling", "sign_flip", "in_place"),
    _kernel("row_mean_backward", _GRADIENT, "scaling", "sign_flip", "in_place"),
    _kernel("row_max_backward", replace(_GRADIENT, params=("of_ties",)), "in_place"),
    _kernel("row_var_backward", _GRADIENT, "scaling", "sign_flip", "in_place"),
    _kernel(
        "logsumexp_backward", replace(_GRADIENT, takes=("y",), mixed=(*_GRADIENT.mixed, ("y", ("x", "f32")))),
        "scaling", "sign_flip", "in_place",
    ),
)  # fmt: skip
