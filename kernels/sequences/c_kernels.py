"""cumsum, linear_recurrence and conv1d in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract, Sequential

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)
_ROWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "layout", "surroundings", "alignment")
_LAWS = ("rerun", "layout", "surroundings", "alignment")
_ALONG = Contract(sums={"n": Sequential()})
_TAKEN = Capabilities(dtypes=("f32", "f16", "bf16"), axis="any", strides="any")

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "cumsum-generic", "cumsum", _C / "cumsum.c", "any", _ALONG,
        Capabilities(_TAKEN.dtypes, axis="any", strides="any", aliases=(("y", "x"),), mixed=(("y", ("x", "f32")),)),
        _FLAGS, laws=(*_ROWS, "in_place"), summary="one element after the other",
    ),
    CKernel(
        "linear-recurrence-generic", "linear_recurrence", _C / "linear_recurrence.c", "any", _ALONG,
        Capabilities(
            _TAKEN.dtypes, axis="any", strides="any", takes=("h0",),
            mixed=tuple((name, ("x", "f32")) for name in ("gate", "h0", "hs")),
        ),
        _FLAGS, laws=_LAWS, summary="one state after the other",
    ),
    CKernel(
        "conv1d-generic", "conv1d", _C / "conv1d.c", "any", Contract(algorithm={"gate": "quotient"}),
        Capabilities(
            _TAKEN.dtypes, strides="any", takes=("bias",), params=("silu",),
            mixed=tuple((name, ("x", "f32")) for name in ("weight", "bias", "y")),
        ),
        _FLAGS, laws=_LAWS, summary="one element at a time, its taps one after the other",
    ),
)  # fmt: skip
