"""layer_norm and its gradients in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, Contract, Pairwise, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "layer_norm.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "layer_norm.py"

# A thread adds up to 128 elements of a row that registers hold, one after the other; then a tree adds 128 threads. It
# divides with div_rn, and its roots are those of sqrt_rn.
_KEPT = Contract(sums={"n": Pairwise(128)}, accuracy={"divide": 0.5, "rsqrt": 1.0})
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "scaling", "sign_flip", "surroundings")
_SUMS = ("rerun", "surroundings")

_OR_F32 = ("x", "f32")
_FORWARD = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="pitched", aliases=(("y", "x"),), takes=("weight", "bias", "mean", "rstd"),
    mixed=(("weight", _OR_F32), ("bias", _OR_F32), ("y", _OR_F32)), max={"n": 16384},
)  # fmt: skip
_BACKWARD = replace(
    _FORWARD, aliases=(("dx", "dy"), ("dx", "x")), takes=("weight", "mean", "rstd", "dw", "db"),
    mixed=(("weight", _OR_F32), ("dw", _OR_F32), ("db", _OR_F32)),
)  # fmt: skip
_ANYWHERE = replace(_FORWARD, axis="any", strides="any", max={})
_BACKWARD_ANYWHERE = replace(_BACKWARD, axis="any", strides="any", max={})

# torch adds in an order that depends on device, layout and thread count, and multiplies by the reciprocal of n.
_FREE = Contract(mean="reciprocal")
# On a processor it forms x rstd - mean rstd, and a gradient as a g + b x + c. Its mean and variance are kept up to
# date, which makes NaN of a row with an infinity, and it adds a bias of zero where there is none.
_NATIVE = Contract(
    mean="reciprocal",
    algorithm={"h": "apart", "mean": "welford", "var": "welford"},
    nonfinite="unspecified",
    zeros="any",
)  # fmt: skip
# It forms rstd dy before it multiplies by a weight, which may overflow where the product is a number: it is given none.
# What underflows depends on the order of its products.
_NATIVE_BACKWARD = Contract(
    mean="reciprocal", algorithm={"h": "apart", "dx": "linear"}, denormals="flush", nonfinite="unspecified", zeros="any"
)

KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        "layer-norm-whole-row", "layer_norm", _TRITON, "triton", _KEPT, _FORWARD, laws=_LAWS,
        summary="a row in registers",
    ),
    PythonKernel(
        "layer-norm-backward-persistent", "layer_norm_backward", _TRITON, "triton", _KEPT, _BACKWARD, laws=_SUMS,
        summary="programs stay; dw and db in registers until the end",
    ),
    PythonKernel(
        "layer-norm-eager", "layer_norm", _TORCH, "torch", _FREE, _ANYWHERE, summary="elementary operations"
    ),
    PythonKernel(
        "layer-norm-backward-eager", "layer_norm_backward", _TORCH, "torch", _FREE, _BACKWARD_ANYWHERE,
        summary="elementary operations",
    ),
    PythonKernel(
        "layer-norm-native", "layer_norm", _TORCH, "torch", _NATIVE, replace(_FORWARD, dtypes=("f32",), mixed=()),
        entry="native", devices=("cpu",), summary="torch.nn.functional.layer_norm",
    ),
    PythonKernel(
        "layer-norm-backward-native", "layer_norm_backward", _TORCH, "torch", _NATIVE_BACKWARD,
        replace(_BACKWARD, dtypes=("f32",), mixed=(), takes=(), needs=("mean", "rstd")),
        entry="native_backward", devices=("cpu",), summary="what autograd calls for it",
    ),
)  # fmt: skip
