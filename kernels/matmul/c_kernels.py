"""matmul in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract, Lanes

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)
_ELEMENTS = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="any", takes=("bias",), params=("relu",),
    mixed=(("bias", ("a", "f32")), ("c", ("a", "f32"))), outside="rejects",
)  # fmt: skip
_DOUBLES = Capabilities(dtypes=("f64",), strides="any", takes=("bias",), params=("relu",), outside="rejects")
_SINGLES = Capabilities(strides="any", takes=("bias",), params=("relu",), outside="rejects")
_SCALES = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="any", takes=("bias",),
    mixed=tuple((name, ("scale_a", "f32")) for name in ("scale_b", "bias", "c")),
)  # fmt: skip
_ROWS = Capabilities(strides="rows", takes=("bias",), params=("relu",), outside="rejects")

# The elements of each matrix are summed by themselves, in an order that k alone decides.
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "scaling", "sign_flip", "layout", "surroundings",
         "alignment")  # fmt: skip

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "matmul-generic", "matmul", _C / "matmul.c", "any", Contract(), _ELEMENTS, _FLAGS, laws=_LAWS,
        summary="one element at a time; any strides",
    ),
    CKernel(
        "matmul-double", "matmul", _C / "matmul.c", "any", Contract(), _DOUBLES, (*_FLAGS, "-DREAL=double"),
        laws=_LAWS, summary="the same in float64",
    ),
    *(
        CKernel(
            name, "matmul", _C / "matmul.c", "any", Contract(points=dict.fromkeys("ab", form)), _SINGLES,
            (*_FLAGS, f"-DTF32={rounds}"), laws=_LAWS, summary=f"the same of factors {how} to 11 bits",
        )
        for name, form, rounds, how in (
            ("matmul-tf32", "tf32", 1, "rounded"), ("matmul-tf32-cut", "tf32 towards zero", 0, "cut"),
        )
    ),
    *(
        CKernel(
            f"matmul-{isa}", "matmul", _C / "matmul_vector.c", isa, Contract(sums={"k": Lanes(1, 2, "predicated")}),
            _ROWS, _FLAGS, laws=_LAWS, summary="tiles of four rows and a vector of columns, two steps of k at once",
        )
        for isa in ("avx2", "neon", "sve")
    ),
    CKernel(
        "scaled-matmul-generic", "scaled_matmul", _C / "scaled_matmul.c", "any", Contract(dtypes={"count": "f64"}),
        _SCALES, _FLAGS, laws=("rerun", "scaling", "sign_flip", "layout", "surroundings", "alignment"),
        summary="one element at a time, its terms added as integers",
    ),
)  # fmt: skip
