"""topk_softmax and softmax_of_topk in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, Contract, Pairwise, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "topk_softmax.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "topk_softmax.py"

# A thread adds up to 32 elements of a row, one after the other; then a tree adds 128 threads. It divides with div_rn.
_KEPT = Contract(sums={"n": Pairwise(32), "k": Pairwise(32)}, accuracy={"divide": 0.5})
_ROWS = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="pitched", max={"n": 4096}, empty=False,
    mixed=(("weight", ("f32", "x")), ("expert", ("int64", "int32"))),
)  # fmt: skip
_ANYWHERE = replace(_ROWS, axis="any", strides="any", max={}, empty=True)
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "surroundings")
_OPS = (("topk_softmax", ("renormalise",)), ("softmax_of_topk", ()))

KERNELS: tuple[PythonKernel, ...] = (
    *(
        PythonKernel(
            f"{op.replace('_', '-')}-whole-row", op, _TRITON, "triton", _KEPT, replace(_ROWS, params=params),
            laws=_LAWS, summary="a row in registers",
        )
        for op, params in _OPS
    ),
    *(
        PythonKernel(
            f"{op.replace('_', '-')}-eager", op, _TORCH, "torch", Contract(), replace(_ANYWHERE, params=params),
            summary="elementary operations",
        )
        for op, params in _OPS
    ),
)  # fmt: skip
