"""gelu, its approximation and silu_mul with their gradients in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, Contract, PythonKernel

from .c_kernels import ALIASES

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "activations.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "activations.py"

# They divide with div_rn.
_CORRECT = {"divide": 0.5}
_TRITON_CONTRACTS = {
    "gelu": Contract(),
    "gelu_backward": Contract(),
    "gelu_tanh": Contract(algorithm={"y": "quotient"}, accuracy=_CORRECT),
    "silu_mul": Contract(algorithm={"h": "quotient"}, accuracy=_CORRECT),
    "silu_mul_backward": Contract(algorithm={"s": "quotient"}, accuracy=_CORRECT),
}
# torch's sigmoid is a quotient, of which the exponential may overflow.
_EAGER = {
    "silu_mul": Contract(algorithm={"s": "quotient"}),
    "silu_mul_backward": Contract(algorithm={"s": "quotient"}),
}
# Its error function of vectors is a polynomial, off by an absolute 1.5e-7; oneDNN, which it calls for some sizes, has
# 0 for -0 and NaN for an infinity, and multiplies by a half last, so that numbers beyond half of the largest overflow.
# Its silu is a quotient, and is rounded to the dtype of the gate.
_NATIVE = {
    "gelu": Contract(
        algorithm={"y": ("formula", "half last")}, absolute={"erf": 4.0}, nonfinite="unspecified", zeros="any"
    ),
    "gelu_tanh": Contract(),
    "silu_mul": Contract(algorithm={"h": "quotient"}, points={"h": "input"}),
}
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "surroundings")


def _able(op: str) -> Capabilities:
    return Capabilities(dtypes=("f32", "f16", "bf16"), strides="any", aliases=ALIASES[op])


def _name(op: str, kind: str) -> str:
    return f"{op.replace('_', '-')}-{kind}"


KERNELS: tuple[PythonKernel, ...] = (
    *(
        PythonKernel(
            _name(op, "blocks"), op, _TRITON, "triton", contract, replace(_able(op), strides="contiguous"),
            laws=_LAWS, summary="blocks of elements",
        )
        for op, contract in _TRITON_CONTRACTS.items()
    ),
    *(
        PythonKernel(
            _name(op, "eager"), op, _TORCH, "torch", _EAGER.get(op, Contract()), _able(op),
            summary="elementary operations",
        )
        for op in ALIASES
    ),
    *(
        PythonKernel(
            _name(op, "native"), op, _TORCH, "torch", contract, _able(op), entry=f"native_{op}", devices=("cpu",),
            summary="torch's own function",
        )
        for op, contract in _NATIVE.items()
    ),
)  # fmt: skip
