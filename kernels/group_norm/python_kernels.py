"""group_norm and its gradients in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, Contract, Pairwise, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "group_norm.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "group_norm.py"

# A lane adds one element of each block of 1024; then 8 lanes of each thread are added, and a tree adds the threads.
# They divide with div_rn, and roots are those of sqrt_rn.
_BLOCKS = Contract(sums={"c s": Pairwise(128), "b s": Pairwise(128)}, accuracy={"divide": 0.5, "rsqrt": 1.0})
_LAWS = ("rerun", "scaling", "sign_flip", "surroundings")

_OR_F32 = ("x", "f32")
_FORWARD = Capabilities(
    dtypes=("f32", "f16", "bf16"), aliases=(("y", "x"),), takes=("weight", "bias", "mean", "rstd"),
    mixed=(("weight", _OR_F32), ("bias", _OR_F32), ("y", _OR_F32)), max={"c": 64, "s": 2048, "b": 100},
)  # fmt: skip
_BACKWARD = replace(
    _FORWARD, aliases=(("dx", "dy"), ("dx", "x")), takes=("weight", "mean", "rstd", "dw", "db"),
    mixed=(("weight", _OR_F32), ("dw", _OR_F32), ("db", _OR_F32)),
)  # fmt: skip
# torch adds in an order that depends on device, layout and thread count, and multiplies by the reciprocal of n.
_FREE = Contract(mean="reciprocal")

KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        "group-norm-blocks", "group_norm", _TRITON, "triton", _BLOCKS, _FORWARD, laws=_LAWS,
        summary="statistics of each group first, then its elements by blocks",
    ),
    PythonKernel(
        "group-norm-backward-blocks", "group_norm_backward", _TRITON, "triton", _BLOCKS, _BACKWARD, laws=_LAWS,
        summary="gradients by channel, then by element, each by blocks",
    ),
    PythonKernel(
        "group-norm-eager", "group_norm", _TORCH, "torch", _FREE, replace(_FORWARD, strides="any", max={}),
        summary="elementary operations",
    ),
    PythonKernel(
        "group-norm-backward-eager", "group_norm_backward", _TORCH, "torch", _FREE,
        replace(_BACKWARD, strides="any", max={}), summary="elementary operations",
    ),
)  # fmt: skip
