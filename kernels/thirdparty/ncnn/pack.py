"""ncnn's layers on a processor: `pip install ncnn`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Any, Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_SOURCE = Path(__file__).resolve().parent / "layers.py"
# ncnn documents neither the order of its sums nor how accurate its functions are; its library is built with fast math,
# which promises nothing of NaN and infinities. A root is the processor's estimate and one step of Newton's method.
_FAST = Contract(
    sums={"n": Any()}, mean="reciprocal", platform="none", nonfinite="unspecified",
    accuracy={"exp": 4.0, "log": 4.0, "rsqrt": 4.0, "erf": 4.0, "tanh": 8.0}, absolute={"erf": 4.0},
)  # fmt: skip
# They normalise x rstd - mean rstd where rows are packed.
_PACKED = replace(_FAST, algorithm={"h": ("formula", "apart")})
_ROWS = Capabilities(empty=False)
_OPS = ("rms_norm", "layer_norm", "softmax", "gelu", "gelu_tanh")


def _kernel(op: str, packing: int) -> PythonKernel:
    packed = f"-by-{packing}" if packing > 1 else ""
    return PythonKernel(
        f"ncnn-{op.replace('_', '-')}{packed}", op, _SOURCE, "numpy",
        _PACKED if op == "layer_norm" else _FAST, _ROWS, packages=("ncnn",),
        options=(("packing", packing),),
    )  # fmt: skip


KERNELS = (
    *(_kernel(op, packing) for op in _OPS for packing in ((1, 4, 8) if "norm" in op else (1,))),
    PythonKernel(
        "ncnn-gelu-of-clone", "gelu", _SOURCE, "numpy", _FAST, _ROWS, entry="gelu_of_clone", packages=("ncnn",)
    ),
)
