"""softmax, log_softmax and their gradients in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract, Lanes, VectorLanes

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)

_ELEMENTS = Capabilities(
    dtypes=("f32", "f16", "bf16"), axis="any", strides="any", aliases=(("y", "x"),), overlap=(("y", "x"),),
    mixed=(("y", ("x", "f32")),), outside="rejects",
)  # fmt: skip
_ROWS = Capabilities(axis="last", strides="rows", aliases=(("y", "x"),), outside="rejects")
_DX = (("dx", "dy"), ("dx", "y"))
_BACKWARD = Capabilities(
    dtypes=("f32", "f16", "bf16"), axis="any", strides="any", aliases=_DX, overlap=_DX, outside="rejects"
)

# Rows are independent, read where they lie and summed in an order that only their length decides: every law holds that
# says anything of a function which is not linear.
_LAWS = (
    "rerun", "row_permutation", "batch_subset", "batch_append", "layout", "in_place", "surroundings", "alignment",
)  # fmt: skip
_LINEAR = (*_LAWS, "scaling", "sign_flip")

_OPS = ("softmax", "log_softmax")
_ORDERS: dict[str, Lanes | VectorLanes] = {
    "avx2": Lanes(8, 1, "predicated"), "neon": Lanes(4, 1, "predicated"), "sve": VectorLanes(1, "predicated"),
    "rvv": VectorLanes(1, "predicated"),
}  # fmt: skip
# V_EXP_ULP of kernels/common/vector.h: 0.9876 at most, over all floats with AVX2.
_EXP = {"exp": 1.0}


def _name(op: str, kind: str) -> str:
    return f"{op.replace('_', '-')}-{kind}"


_BY_ELEMENTS = (
    CKernel(
        _name(op, "generic"), op, _C / f"{op}.c", "any", Contract(), _ELEMENTS, _FLAGS, laws=_LAWS,
        summary="three passes, one element at a time; any axis and strides",
    )
    for op in _OPS
)  # fmt: skip
_BY_VECTORS = (
    CKernel(
        _name(op, isa), op, _C / f"{op}_vector.c", isa, Contract(sums={"n": order}, accuracy=_EXP), _ROWS, _FLAGS,
        laws=_LAWS, summary="three passes by vectors, the exponential a polynomial",
    )
    for op in _OPS for isa, order in _ORDERS.items()
)  # fmt: skip
_GRADIENTS = (
    CKernel(
        _name(f"{op}_backward", "generic"), f"{op}_backward", _C / f"{op}_backward.c", "any", Contract(), _BACKWARD,
        _FLAGS, laws=_LINEAR, summary="one element at a time; any axis and strides",
    )
    for op in _OPS
)  # fmt: skip

KERNELS: tuple[CKernel, ...] = (*_BY_ELEMENTS, *_BY_VECTORS, *_GRADIENTS)
