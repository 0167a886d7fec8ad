"""Triton kernels with mistakes that people make, and a right one."""

from __future__ import annotations

from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel

_ROWS = Path(__file__).parent / "rows.py"
_ABLE = Capabilities(empty=False, strides="pitched", max={"n": 16384})
_DENSE = Capabilities(empty=False, max={"n": 16384})


def _softmax(kind: str) -> PythonKernel:
    return PythonKernel(
        kind, "softmax", _ROWS, "triton", Contract(), _ABLE, options=(("kind", kind),), devices=("cuda",), laws=()
    )


KERNELS = (
    *map(_softmax, ("right", "mask", "other", "where", "hint")),
    PythonKernel("race", "row_sum", _ROWS, "triton", Contract(sums={"n": AnyOrder()}), _DENSE, devices=("cuda",)),
)
