"""ncnn's layers on a processor: `pip install ncnn`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel, Within

__all__ = ["KERNELS"]

_SOURCE = Path(__file__).resolve().parent / "layers.py"
# ncnn documents neither the order of its sums nor how accurate its functions are; its library is built with fast math,
# which promises nothing of NaN and infinities. A root is the processor's estimate and one step of Newton's method; the
# estimate takes a subnormal number for zero (Intel SDM, RSQRTPS). An exponential's power of two is made of exponent
# bits, and zero below the least normal number.
_FAST = Contract(
    sums={"n": AnyOrder()}, mean="reciprocal", platform="none", nonfinite="unspecified",
    accuracy={
        "exp": Within(4.0, flushes=True), "log": 4.0, "rsqrt": Within(4.0, flushes=True), "erf": 4.0, "tanh": 8.0,
    },
    absolute={"erf": 4.0},
)  # fmt: skip
# They normalise x rstd - mean rstd where rows are packed.
_PACKED = replace(_FAST, algorithm={"h": ("formula", "apart")})
# Fast math may multiply in any order: by the weight first.
_WEIGHTED = replace(_FAST, algorithm={"y": ("formula", "weight first")})
_CONTRACTS = {"rms_norm": _WEIGHTED, "layer_norm": _PACKED}
_ROWS = Capabilities(empty=False)
_OPS = ("rms_norm", "layer_norm", "softmax", "gelu", "gelu_tanh")


def _kernel(op: str, packing: int) -> PythonKernel:
    packed = f"-by-{packing}" if packing > 1 else ""
    return PythonKernel(
        f"ncnn-{op.replace('_', '-')}{packed}", op, _SOURCE, "numpy",
        _CONTRACTS.get(op, _FAST), _ROWS, packages=("ncnn",),
        options=(("packing", packing),),
    )  # fmt: skip


KERNELS = (
    *(_kernel(op, packing) for op in _OPS for packing in ((1, 4, 8) if "norm" in op else (1,))),
    PythonKernel(
        "ncnn-gelu-of-clone", "gelu", _SOURCE, "numpy", _FAST, _ROWS, entry="gelu_of_clone", packages=("ncnn",)
    ),
)
