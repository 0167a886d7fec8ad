"""embedding and its gradient in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "embedding.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "embedding.py"

_INDEX = ("index", ("int32", "int64"))
_FORWARD = Capabilities(dtypes=("f32", "f16", "bf16"), strides="pitched", mixed=(_INDEX,))
_BACKWARD = replace(_FORWARD, mixed=(_INDEX, ("dy", ("collected", "f32"))), aliases=(("dtable", "collected"),))
# Additions to what was collected come in any order. On a GPU `atom.add.f32` flushes subnormal numbers in global
# memory, as the PTX manual says of it.
_ATOMIC = Contract(sums={"t": AnyOrder()}, addend="either", zeros="any", denormals="flush")

KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        "embedding-rows", "embedding", _TRITON, "triton", Contract(), _FORWARD,
        laws=("rerun", "scaling", "surroundings"), summary="a row of each place by blocks",
    ),
    PythonKernel(
        "embedding-backward-atomic", "embedding_backward", _TRITON, "triton", _ATOMIC, _BACKWARD, laws=(),
        summary="a row of each place, joined by atomic additions",
    ),
    PythonKernel(
        "embedding-select", "embedding", _TORCH, "torch", Contract(), replace(_FORWARD, strides="any"),
        summary="torch.index_select",
    ),
    PythonKernel(
        "embedding-backward-index-add", "embedding_backward", _TORCH, "torch", _ATOMIC,
        replace(_BACKWARD, strides="any"), laws=(), summary="torch.index_add",
    ),
)  # fmt: skip
