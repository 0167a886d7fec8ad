"""layer_norm and its gradients in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract, Lanes, VectorLanes

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)

_OR_F32 = ("x", "f32")
_ELEMENTS = Capabilities(
    dtypes=("f32", "f16", "bf16"), axis="any", strides="any", aliases=(("y", "x"),), overlap=(("y", "x"),),
    takes=("weight", "bias", "mean", "rstd"), mixed=(("weight", _OR_F32), ("bias", _OR_F32), ("y", _OR_F32)),
    outside="rejects",
)  # fmt: skip
_ROWS = Capabilities(
    axis="last", strides="rows", aliases=(("y", "x"),), takes=("weight", "bias", "mean", "rstd"), outside="rejects"
)
_DX = (("dx", "dy"), ("dx", "x"))
_BACKWARD = Capabilities(
    dtypes=("f32", "f16", "bf16"), axis="any", strides="any", aliases=_DX, overlap=_DX,
    takes=("weight", "mean", "rstd", "dw", "db"), mixed=(("weight", _OR_F32), ("dw", _OR_F32), ("db", _OR_F32)),
    outside="rejects",
)  # fmt: skip

# Rows are independent, read where they lie and summed in an order that only their length decides: every law holds.
_LAWS = (
    "rerun", "row_permutation", "batch_subset", "batch_append", "scaling", "sign_flip",
    "layout", "in_place", "surroundings", "alignment",
)  # fmt: skip


def _by_vectors(isa: str, order: Lanes | VectorLanes, summary: str) -> CKernel:
    return CKernel(
        f"layer-norm-{isa}", "layer_norm", _C / "vector.c", isa, Contract(sums={"n": order}), _ROWS, _FLAGS,
        laws=_LAWS, summary=summary,
    )  # fmt: skip


KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "layer-norm-generic", "layer_norm", _C / "generic.c", "any", Contract(), _ELEMENTS, _FLAGS,
        laws=_LAWS, summary="three passes, one element at a time; any axis and strides",
    ),
    _by_vectors("avx2", Lanes(8, 1, "predicated"), "three passes by vectors of 8, the tail through a buffer"),
    _by_vectors("neon", Lanes(4, 1, "predicated"), "three passes by vectors of 4, the tail through a buffer"),
    _by_vectors("sve", VectorLanes(1, "predicated"), "three passes by vectors of any length, the tail predicated"),
    CKernel(
        "layer-norm-backward-generic", "layer_norm_backward", _C / "backward.c", "any", Contract(), _BACKWARD, _FLAGS,
        laws=_LAWS, summary="dx through two means along the row, dw and db summed row after row",
    ),
)  # fmt: skip
