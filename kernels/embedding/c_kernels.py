"""embedding and its gradient in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"
_INDEX = ("index", ("int32", "int64"))
_FORWARD = Capabilities(dtypes=("f32", "f16", "bf16"), strides="any", mixed=(_INDEX,), checks=("index",))
_BACKWARD = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="any", aliases=(("dtable", "collected"),),
    mixed=(_INDEX, ("dy", ("collected", "f32"))), checks=("index",),
)  # fmt: skip
_LAWS = ("rerun", "scaling", "layout", "surroundings", "alignment")

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "embedding-generic", "embedding", _C / "embedding.c", "any", Contract(), _FORWARD, laws=_LAWS,
        summary="one element at a time; any strides",
    ),
    CKernel(
        "embedding-backward-generic", "embedding_backward", _C / "embedding_backward.c", "any", Contract(), _BACKWARD,
        laws=(*_LAWS, "sign_flip", "in_place"), summary="one element at a time; any strides",
    ),
)  # fmt: skip
