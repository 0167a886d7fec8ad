"""dequantize_matmul in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "dequantize_matmul.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "dequantize_matmul.py"

# A library adds in an order that depends on the shape, the processor and the number of threads.
_FREE = Contract(sums={"g k": AnyOrder()}, zeros="any")
_DENSE = Capabilities(dtypes=("f32", "f16", "bf16"), mixed=(("scale", ("x", "f32")), ("c", ("x", "f32"))))

KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        "dequantize-matmul-tiled", "dequantize_matmul", _TRITON, "triton", _FREE, _DENSE,
        laws=("rerun", "surroundings"), summary="a tile of 16 rows and columns in each program",
    ),
    PythonKernel(
        "dequantize-matmul-eager", "dequantize_matmul", _TORCH, "torch", _FREE, replace(_DENSE, strides="any"),
        summary="the weights first, then torch.matmul",
    ),
)  # fmt: skip
