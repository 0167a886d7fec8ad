"""paged_attention in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel, Steps

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "paged_attention.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "paged_attention.py"

_PLACES = ("int32", "int64")
_ANYWHERE = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="any",
    mixed=(("table", _PLACES), ("lengths", _PLACES), ("o", ("q", "f32"))),
)  # fmt: skip
_FREE = Contract(sums={"d": AnyOrder(), "t s": AnyOrder()}, zeros="any")
# A page may have one slot: then the maximum may grow with each key.
_PAGES = replace(_FREE, sums={"d": AnyOrder(), "t s": Steps(1)}, algorithm={"mass": "online", "acc": "online"})
# Each head of each sequence is a program, for which an interpreter takes long.
_FEW = replace(_ANYWHERE, max={"b": 4, "g": 3, "h": 4, "t": 16, "s": 64, "d": 256, "e": 256})

KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        "paged-attention-pages", "paged_attention", _TRITON, "triton", _PAGES, _FEW, laws=("rerun", "surroundings"),
        summary="a page at once of each head, rescaled as the maximum grows",
    ),
    PythonKernel(
        "paged-attention-gathered", "paged_attention", _TORCH, "torch", _FREE, _ANYWHERE,
        summary="the pages of a sequence side by side, then elementary operations",
    ),
)  # fmt: skip
