"""int4_matmul in torch, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_TORCH = Path(__file__).resolve().parent / "torch" / "int4_matmul.py"

KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        # A library adds in an order that depends on the shape, the processor and the number of threads.
        "int4-matmul-eager", "int4_matmul", _TORCH, "torch", Contract(sums={"g h j": AnyOrder()}, zeros="any"),
        Capabilities(
            dtypes=("f32", "f16", "bf16"), strides="any", mixed=(("scale", ("x", "f32")), ("c", ("x", "f32")))
        ),
        summary="the weights first, then torch.matmul",
    ),
)  # fmt: skip
