"""Kernels for a GPU that read what nobody set, and such as do not."""

from __future__ import annotations

from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, CudaKernel, PythonKernel

_SUMS = Path(__file__).parent / "sums.py"
_ROWS = Capabilities(empty=False)
# PTX ISA, red: the addition of f32 to global memory flushes subnormal numbers.
_ATOMIC = Contract(sums={"n": AnyOrder()}, denormals="flush")


def _softmax(name: str) -> CudaKernel:
    return CudaKernel(name, "softmax", "softmax.cu", f"void softmax_{name}(const float *x, float *y, int n)")


def _sum(name: str, cleared: bool) -> PythonKernel:
    return PythonKernel(
        name, "row_sum", _SUMS, "triton", _ATOMIC, _ROWS, options=(("cleared", cleared),),
        devices=("cuda",), laws=(),
    )  # fmt: skip


KERNELS = (_softmax("right"), _softmax("shared"), _sum("cleared", True), _sum("scratch", False))
