"""cross_entropy and its gradient in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)
_LABEL = ("label", ("int32", "int64"))
_FORWARD = Capabilities(
    dtypes=("f32", "f16", "bf16"), axis="any", strides="any", takes=("lse", "mean"),
    mixed=(_LABEL, ("loss", ("x", "f32"))), params=("smoothing", "z", "fewest"), checks=("label",),
)  # fmt: skip
_BACKWARD = Capabilities(
    dtypes=("f32", "f16", "bf16"), axis="any", strides="any", aliases=(("dx", "x"),), takes=("lse",), mixed=(_LABEL,),
    params=("smoothing", "z"), checks=("label",),
)  # fmt: skip

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "cross-entropy-generic", "cross_entropy", _C / "cross_entropy.c", "any", Contract(), _FORWARD, _FLAGS,
        laws=("rerun", "layout", "surroundings", "alignment"), summary="one element at a time; any axis and strides",
    ),
    CKernel(
        "cross-entropy-backward-generic", "cross_entropy_backward", _C / "cross_entropy_backward.c", "any", Contract(),
        _BACKWARD, _FLAGS,
        laws=("rerun", "row_permutation", "batch_subset", "batch_append", "scaling", "sign_flip", "layout", "in_place",
              "surroundings", "alignment"),
        summary="one element at a time; any axis and strides",
    ),
)  # fmt: skip
