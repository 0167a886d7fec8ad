"""group_norm and its gradients in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)
_OR_F32 = ("x", "f32")
_FORWARD = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="any", aliases=(("y", "x"),), takes=("weight", "bias", "mean", "rstd"),
    mixed=(("weight", _OR_F32), ("bias", _OR_F32), ("y", _OR_F32)),
)  # fmt: skip
_BACKWARD = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="any", aliases=(("dx", "dy"), ("dx", "x")),
    takes=("weight", "mean", "rstd", "dw", "db"), mixed=(("weight", _OR_F32), ("dw", _OR_F32), ("db", _OR_F32)),
)  # fmt: skip
_LAWS = ("rerun", "scaling", "sign_flip", "layout", "in_place", "surroundings", "alignment")

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "group-norm-generic", "group_norm", _C / "group_norm.c", "any", Contract(), _FORWARD, _FLAGS, laws=_LAWS,
        summary="three passes, one element at a time; any strides",
    ),
    CKernel(
        "group-norm-backward-generic", "group_norm_backward", _C / "group_norm_backward.c", "any", Contract(),
        _BACKWARD, _FLAGS, laws=_LAWS, summary="one element at a time; any strides",
    ),
)  # fmt: skip
