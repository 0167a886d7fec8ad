"""quantize_rows in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "quantize_rows.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "quantize_rows.py"

_ROWS = Capabilities(dtypes=("f32", "f16", "bf16"), strides="pitched", max={"n": 16384})
_ANYWHERE = replace(_ROWS, axis="any", strides="any", max={})
# Each division is rounded once: codes beside a tie are those of the very quotient.
_EXACT = Contract(points={"step": "f32", "ratio": "f32"}, accuracy={"divide": 0.5})

KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        "quantize-rows-whole-row", "quantize_rows", _TRITON, "triton", _EXACT, _ROWS,
        laws=("rerun", "row_permutation", "batch_subset", "batch_append", "surroundings"), summary="a row in registers",
    ),
    *(
        PythonKernel(
            f"{op.replace('_', '-')}-eager", op, _TORCH, "torch", _EXACT, _ANYWHERE, devices=("cpu",),
            summary="elementary operations",
        )
        for op in ("quantize_rows", "quantize_rows_e4m3")
    ),
)  # fmt: skip
