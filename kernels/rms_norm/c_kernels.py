"""The RMSNorm family in C, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, CKernel, Contract, Lanes, VectorLanes

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)

_ROWS = Capabilities(dtypes=("f32", "f16"), axis="last", strides="rows", aliases=(("y", "x"),), outside="rejects")
_ANY = Capabilities(dtypes=("f32", "f16"), axis="any", strides="any", aliases=(("y", "x"),))

# Optional tensors, mixed dtypes.
_FLOATS = ("f32", "f16", "bf16")
_WEIGHT = ("weight", ("x", "f32"))
_FORWARD = Capabilities(
    dtypes=_FLOATS, axis="any", strides="any", aliases=(("y", "x"),), takes=("weight", "rstd"),
    mixed=(_WEIGHT, ("y", ("x", "f32"))), params=("weight_offset",), overlap=(("y", "x"),), stacked=("weight",),
    outside="rejects",
)  # fmt: skip
_SUMS = (("y", "x"), ("sum", "residual"), ("sum", "x"), ("y", "residual"))
_ADD = Capabilities(
    dtypes=_FLOATS, axis="any", strides="any",
    aliases=_SUMS, overlap=_SUMS,
    takes=("weight", "sum", "rstd"), mixed=(_WEIGHT, ("residual", ("x", "f32")), ("sum", ("x", "f32"))),
    params=("weight_offset",), stacked=("weight",),
)  # fmt: skip
_DX = (("dx", "dy"), ("dx", "x"))
_BACKWARD = Capabilities(
    dtypes=_FLOATS, axis="any", strides="any", aliases=_DX, overlap=_DX,
    takes=("weight", "rstd", "dw"), mixed=(_WEIGHT, ("dw", ("x", "f32"))), params=("weight_offset",),
    outside="rejects",
)  # fmt: skip
_DSUMS = (("dx", "dy"), ("dx", "dsum"), ("dresidual", "dsum"), ("dresidual", "dy"))
_ADD_BACKWARD = replace(
    _BACKWARD, takes=("dsum", "weight", "rstd", "dresidual", "dw"),
    aliases=_DSUMS, overlap=_DSUMS,
)  # fmt: skip

# Rows are independent, read where they lie and summed in an order that only their length decides: every law holds.
_LAWS = (
    "rerun", "row_permutation", "batch_subset", "batch_append", "scaling", "sign_flip",
    "layout", "in_place", "surroundings", "alignment",
)  # fmt: skip

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "generic", "rms_norm", _C / "generic.c", "any", Contract(), _ROWS, _FLAGS,
        laws=_LAWS, summary="sequential scalar loop",
    ),
    CKernel(
        "composed", "rms_norm", _C / "composed.c", "any",
        Contract(mean="reciprocal"), _ANY, _FLAGS,
        laws=_LAWS, summary="mean of squares, plus eps, rsqrt, multiply, as four passes; any axis, any strides",
    ),
    CKernel(
        "avx2", "rms_norm", _C / "avx2.c", "avx2", Contract(sums={"n": Lanes(8, 4, "scalar")}), _ROWS, _FLAGS,
        laws=_LAWS, summary="blocks of rows, four 8-lane FMA accumulators, scalar tail",
    ),
    CKernel(
        "avx512", "rms_norm", _C / "avx512.c", "avx512", Contract(sums={"n": Lanes(16, 4, "scalar")}), _ROWS, _FLAGS,
        laws=_LAWS, summary="blocks of rows, four 16-lane FMA accumulators, scalar tail",
    ),
    CKernel(
        "neon", "rms_norm", _C / "neon.c", "neon", Contract(sums={"n": Lanes(4, 4, "scalar")}), _ROWS, _FLAGS,
        laws=_LAWS, summary="four 4-lane FMA accumulators, scalar tail",
    ),
    CKernel(
        "sve", "rms_norm", _C / "sve.c", "sve", Contract(sums={"n": VectorLanes(4, "predicated")}), _ROWS, _FLAGS,
        laws=_LAWS, summary="any vector length, four accumulators, predicated tail",
    ),
    CKernel(
        # The loosest of its routes' contracts: which one runs depends on the machine and on the case.
        "dispatch", "rms_norm", _C / "dispatch.c", "runtime",
        Contract(mean="reciprocal"), _ANY, _FLAGS,
        # A contiguous copy of a strided view takes another route, which sums in another order.
        laws=tuple(law for law in _LAWS if law != "layout"),
        summary="widest fast path for contiguous rows, composed otherwise",
    ),
    CKernel(
        "weighted", "rms_norm", _C / "weighted.c", "any", Contract(), _FORWARD, _FLAGS,
        laws=_LAWS, summary="weight of rank 1 or 2, offset and stored rstd; any axis and strides",
    ),
    CKernel(
        "weighted-llama", "rms_norm", _C / "weighted.c", "any", Contract(points={"h": "input"}),
        replace(_FORWARD, stacked=()), (*_FLAGS, "-DCAST_FIRST"), laws=_LAWS,
        summary="the same, cast before the weight; a weight of rank 1",
    ),
    CKernel(
        "add-generic", "fused_add_rms_norm", _C / "add.c", "any", Contract(points={"added": "sum"}), _ADD, _FLAGS,
        laws=_LAWS, summary="a row at a time through a buffer; the sum is rounded before it is normalised",
    ),
    CKernel(
        "add-unrounded", "fused_add_rms_norm", _C / "add.c", "any",
        Contract(), _ADD, (*_FLAGS, "-DUNROUNDED"),
        laws=_LAWS, summary="the same, normalising the sum as it was calculated",
    ),
    CKernel(
        "backward-generic", "rms_norm_backward", _C / "backward.c", "any", Contract(), _BACKWARD, _FLAGS,
        laws=_LAWS, summary="dx through x_hat, dw summed row after row",
    ),
    CKernel(
        "backward-f64", "rms_norm_backward", _C / "backward.c", "any",
        Contract(compute="f64"), replace(_BACKWARD, dtypes=("f64", "f32")),
        (*_FLAGS, "-DREAL=double"), laws=_LAWS, summary="the same in double",
    ),
    CKernel(
        "add-backward-generic", "fused_add_rms_norm_backward", _C / "add_backward.c", "any", Contract(), _ADD_BACKWARD,
        _FLAGS, laws=_LAWS, summary="the same with the gradient of the residual sum",
    ),
)  # fmt: skip
