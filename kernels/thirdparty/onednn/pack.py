"""oneDNN's primitives on a processor, by torch's tensors of its layout and the products that torch.compile makes of a
linear layer: they come with torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_SOURCE = Path(__file__).resolve().parent / "functions.py"
# oneDNN's guide has the formula of each primitive, and says that 16 bits are accumulated in f32; not in which order,
# nor how accurate its functions are. torch calls it with subnormal numbers flushed, as it is seen to do.
_FREE = Contract(
    sums={"n": AnyOrder()}, mean="reciprocal", accuracy={"exp": 4.0, "log": 4.0, "rsqrt": 2.0, "erf": 4.0, "tanh": 4.0},
    absolute={"erf": 4.0}, platform="none", denormals="flush",
)  # fmt: skip
_PRODUCTS = replace(_FREE, sums={"k": AnyOrder()}, zeros="any")
_FLOATS = ("f32", "bf16")
_ROWS = Capabilities(dtypes=_FLOATS, empty=False)
_OPS = {
    "softmax": ("softmax", _FREE, _ROWS),
    "gelu": ("gelu", _FREE, _ROWS),
    "matmul": ("matmul", _PRODUCTS, replace(_ROWS, max={"k": 4096})),
    "pointwise": ("matmul", _PRODUCTS, replace(_ROWS, max={"k": 4096})),
}  # fmt: skip

KERNELS = tuple(
    PythonKernel(
        f"onednn-{entry.replace('_', '-')}", op, _SOURCE, "torch", contract, able, devices=("cpu",), entry=entry
    )
    for entry, (op, contract, able) in _OPS.items()
)
