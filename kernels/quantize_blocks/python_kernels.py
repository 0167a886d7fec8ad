"""Rows in blocks with scales of their own, in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, PythonKernel

from .c_kernels import EXACT_MXFP8, EXACT_NVFP4

__all__ = ["KERNELS"]

_HERE = Path(__file__).resolve().parent
_TRITON, _TORCH = _HERE / "triton" / "quantize_blocks.py", _HERE / "torch" / "quantize_blocks.py"

_ROWS = Capabilities(dtypes=("f32", "f16", "bf16"), strides="pitched")
_ANYWHERE = replace(_ROWS, axis="any", strides="any")
_MXFP8 = ("quantize_mxfp8", "quantize_mxfp8_e5m2")

KERNELS: tuple[PythonKernel, ...] = (
    *(
        PythonKernel(
            f"{op.replace('_', '-')}-tiled", op, _TRITON, "triton", EXACT_MXFP8, _ROWS,
            laws=("rerun", "row_permutation", "batch_subset", "batch_append", "surroundings"),
            summary="a tile of 32 blocks in each program",
        )
        for op in _MXFP8
    ),
    *(
        PythonKernel(
            f"{op.replace('_', '-')}-eager", op, _TORCH, "torch", EXACT_MXFP8, _ANYWHERE, devices=("cpu",),
            summary="exponents by their bits, and products with powers of two",
        )
        for op in _MXFP8
    ),
    PythonKernel(
        "quantize-nvfp4-tiled", "quantize_nvfp4", _TRITON, "triton", EXACT_NVFP4, _ROWS,
        laws=("rerun", "row_permutation", "batch_subset", "batch_append", "surroundings"),
        summary="a tile of 64 blocks in each program, the elements of pairs apart",
    ),
    PythonKernel(
        "quantize-nvfp4-eager", "quantize_nvfp4", _TORCH, "torch", EXACT_NVFP4, _ANYWHERE, devices=("cpu",),
        summary="elementary operations, and a cast to 8 bits",
    ),
)  # fmt: skip
