"""Kernels for a GPU of which tools alone see what is wrong, and right ones."""

from __future__ import annotations

from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, CudaKernel, PythonKernel

_SUMS = Path(__file__).parent / "sums.py"
_ROWS = Capabilities(empty=False)


def _softmax(name: str) -> CudaKernel:
    return CudaKernel(name, "softmax", "softmax.cu", f"void softmax_{name}(const float *x, float *y, int n)")


def _sum(name: str) -> PythonKernel:
    return PythonKernel(
        name, "row_sum", _SUMS, "triton", Contract(sums={"n": AnyOrder()}), _ROWS, options=(("kind", name),),
        devices=("cuda",), laws=(),
    )  # fmt: skip


KERNELS = (*map(_softmax, ("waits", "races", "in_step")), *map(_sum, ("right", "strays", "unset")))
