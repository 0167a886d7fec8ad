"""Sums, means, greatest elements, variances and logsumexp of rows in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, Contract, Pairwise, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "reductions.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "reductions.py"

_OPS = ("row_sum", "row_mean", "row_max", "row_var", "logsumexp")
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "surroundings")
# A thread adds up to 128 elements of a row that registers hold, one after the other; then a tree adds 128 threads. It
# divides with div_rn.
_KEPT = Contract(sums={"n": Pairwise(128)}, accuracy={"divide": 0.5})
_ROWS = Capabilities(dtypes=("f32", "f16", "bf16"), strides="pitched", max={"n": 16384}, empty=False)
_ANYWHERE = replace(_ROWS, axis="any", strides="any", max={}, empty=True, mixed=(("y", ("x", "f32")),))
_GRADIENT = replace(_ANYWHERE, mixed=(("dy", ("x", "f32")), ("dx", ("x", "f32"))))
# A mean and squares that are kept up to date make NaN of a row with an infinity.
_WELFORD = Contract(algorithm={"mean": "welford", "squares": "welford"}, nonfinite="unspecified")


def _name(op: str, kind: str) -> str:
    return f"{op.replace('_', '-')}-{kind}"


KERNELS: tuple[PythonKernel, ...] = (
    *(
        PythonKernel(
            _name(op, "whole-row"), op, _TRITON, "triton", Contract() if op == "row_max" else _KEPT, _ROWS, laws=_LAWS,
            summary="a row in registers",
        )
        for op in _OPS
    ),
    *(
        PythonKernel(
            _name(op, "eager"), op, _TORCH, "torch", capabilities=_ANYWHERE, summary="elementary operations"
        )
        for op in _OPS
    ),
    PythonKernel(
        "row-var-native", "row_var", _TORCH, "torch", _WELFORD, _ANYWHERE, entry="native_row_var", devices=("cpu",),
        summary="torch.var",
    ),
    *(
        PythonKernel(
            _name(f"{op}_backward", "eager"), f"{op}_backward", _TORCH, "torch", capabilities=_GRADIENT,
            summary="elementary operations",
        )
        for op in _OPS
    ),
)  # fmt: skip
