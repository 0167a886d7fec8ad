"""The built-in pack: the SIMD RMSNorm family in C."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Lanes, Numerics, Sequential, VectorLanes

from .mutants import laws, rms_norm

__all__ = ["KERNELS", "MUTANTS"]

MUTANTS = (*rms_norm.MUTANTS, *laws.MUTANTS)

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)

_ROWS = Capabilities(dtypes=("f32", "f16"), axis="last", strides="rows", aliases=(("y", "x"),), outside="rejects")
_ANY = Capabilities(dtypes=("f32", "f16"), axis="any", strides="any", aliases=(("y", "x"),))

# Rows are independent, read where they lie and summed in an order that only their length decides: every law holds.
_LAWS = (
    "rerun", "row_permutation", "batch_subset", "batch_append", "scaling", "sign_flip",
    "layout", "in_place", "surroundings", "alignment",
)  # fmt: skip

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "generic", "rms_norm", _C / "generic.c", "any", Numerics(summation=Sequential()), _ROWS, _FLAGS,
        laws=_LAWS, summary="sequential scalar loop",
    ),
    CKernel(
        "composed", "rms_norm", _C / "composed.c", "any",
        Numerics(summation=Sequential(), mean="reciprocal"), _ANY, _FLAGS,
        laws=_LAWS, summary="mean of squares, plus eps, rsqrt, multiply, as four passes; any axis, any strides",
    ),
    CKernel(
        "avx2", "rms_norm", _C / "avx2.c", "avx2", Numerics(summation=Lanes(8, 4, "scalar")), _ROWS, _FLAGS,
        laws=_LAWS, summary="four 8-lane FMA accumulators, scalar tail",
    ),
    CKernel(
        "avx512", "rms_norm", _C / "avx512.c", "avx512", Numerics(summation=Lanes(16, 4, "scalar")), _ROWS, _FLAGS,
        laws=_LAWS, summary="four 16-lane FMA accumulators, scalar tail",
    ),
    CKernel(
        "neon", "rms_norm", _C / "neon.c", "neon", Numerics(summation=Lanes(4, 4, "scalar")), _ROWS, _FLAGS,
        laws=_LAWS, summary="four 4-lane FMA accumulators, scalar tail",
    ),
    CKernel(
        "sve", "rms_norm", _C / "sve.c", "sve", Numerics(summation=VectorLanes(4, "predicated")), _ROWS, _FLAGS,
        laws=_LAWS, summary="any vector length, four accumulators, predicated tail",
    ),
    CKernel(
        # The loosest of its routes' contracts: which one runs depends on the machine and on the case.
        "dispatch", "rms_norm", _C / "dispatch.c", "runtime",
        Numerics(summation=Sequential(), mean="reciprocal"), _ANY, _FLAGS,
        # A contiguous copy of a strided view takes another route, which sums in another order.
        laws=tuple(law for law in _LAWS if law != "layout"),
        summary="widest fast path for contiguous rows, composed otherwise",
    ),
)  # fmt: skip
