"""grouped_matmul and grouped_rows_matmul in Triton and torch, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_HERE = Path(__file__).resolve().parent
_TRITON, _TORCH = (_HERE / language / "grouped_matmul.py" for language in ("triton", "torch"))
_ROWS_TRITON, _ROWS_TORCH = (_HERE / language / "grouped_rows_matmul.py" for language in ("triton", "torch"))

# A library adds in an order that depends on the shape, the processor and the number of threads.
_FREE = Contract(sums={"k": AnyOrder()}, zeros="any")
# Instructions for products of bf16 take subnormal numbers for zeros, and return no others.
_LIBRARY = Contract(sums={"k": AnyOrder()}, zeros="any", denormals="flush")
_ANYWHERE = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="any", aliases=(("c", "collected"),),
    mixed=(("offs", ("int32", "int64")), ("collected", ("a", "f32")), ("c", ("a", "f32"))),
)  # fmt: skip
_ROWS = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="any",
    mixed=(("offs", ("int32", "int64")), ("bias", ("a", "f32")), ("c", ("a", "f32"))),
)  # fmt: skip
# Rows of both matrices must begin at multiples of 16 bytes, and there must be some.
_ALIGNED = Capabilities(dtypes=("f32", "f16", "bf16"), strides="any", multiple_of={"k": 8, "n": 8}, empty=False)

# The one that takes least is first: its cases, which a short search begins with, are the others' too.
KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        "grouped-matmul-native", "grouped_matmul", _TORCH, "torch", _LIBRARY, _ALIGNED, entry="native",
        devices=("cpu",), summary="torch.nn.functional.grouped_mm",
    ),
    PythonKernel(
        "grouped-matmul-tiled", "grouped_matmul", _TRITON, "triton", _FREE, _ANYWHERE, laws=("rerun", "surroundings"),
        summary="a tile of 16 rows and columns of one group in each program",
    ),
    PythonKernel(
        "grouped-matmul-loop", "grouped_matmul", _TORCH, "torch", _FREE, _ANYWHERE,
        summary="torch.matmul of each group",
    ),
    PythonKernel(
        "grouped-rows-matmul-native", "grouped_rows_matmul", _ROWS_TORCH, "torch", _LIBRARY, _ALIGNED, entry="native",
        devices=("cpu",), summary="torch.nn.functional.grouped_mm, and zeros behind the last group",
    ),
    PythonKernel(
        "grouped-rows-matmul-tiled", "grouped_rows_matmul", _ROWS_TRITON, "triton", _FREE, _ROWS,
        laws=("rerun", "surroundings"), summary="a tile of 16 rows of one group in each program",
    ),
    PythonKernel(
        "grouped-rows-matmul-loop", "grouped_rows_matmul", _ROWS_TORCH, "torch", _FREE, _ROWS,
        summary="torch.matmul of each group",
    ),
)  # fmt: skip
