"""Attention in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Blocks, Capabilities, Contract, PythonKernel, Steps

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "attention.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "attention.py"

_ANYWHERE = Capabilities(
    dtypes=("f32", "f16", "bf16", "f64"), strides="any",
    mixed=(("bias", ("q", "f32")), ("o", ("q", "f32"))),
)  # fmt: skip
_LIBRARY = Capabilities(dtypes=_ANYWHERE.dtypes, strides="any", empty=False)
_ANY_ORDER = {"d": AnyOrder(), "j": AnyOrder()}
_FREE = Contract(sums=_ANY_ORDER, zeros="any")
# What is hidden has minus infinity added to it.
_ADDED = {"near": "added", "seen": "added"}
_MATH = replace(_FREE, algorithm={**_ADDED, "s": "roots", "o": "shares"})
# It looks for the maximum with std::max where there are fewer scores than a vector has, which passes over NaN: where
# all of them are NaN, it takes them all for hidden, and has 0 (torch 2.13; see pytorch/pytorch#141128).
_FUSED = replace(_FREE, algorithm={**_ADDED, "o": "sum"}, accuracy={"exp": 20.0}, nonfinite="unspecified")

_BLOCKED = replace(
    _FREE, sums={"d": AnyOrder(), "j": Steps(16)},
    algorithm={"capped": "quotient", "mass": "online", "acc": "online"},
)  # fmt: skip
# Each head of each query block is a program, for which an interpreter takes 0.1 s: of 192 it would take half a minute.
# Longer heads than models have take a compiler minutes.
_FEW = {"b": 4, "g": 3, "h": 4, "d": 256, "e": 256}
_F32 = Capabilities(strides="any", max=_FEW)
_HALVES = Capabilities(
    dtypes=("f16", "bf16"), strides="any", max=_FEW, mixed=(("bias", ("q", "f32")), ("o", ("q", "f32"))),
)  # fmt: skip
# Tensor cores add 16 terms at once to what there is, and cut off what lies below its last bit.
_CORES = replace(
    _BLOCKED, sums=dict.fromkeys("dj", Blocks(16, truncates=True)), denormals="flush", points={"p": "maybe input"}
)
_GRADIENTS = {"d": AnyOrder(), "e": AnyOrder(), "j": AnyOrder(), "h i": AnyOrder()}
_MIXED = tuple((name, ("q", "f32")) for name in ("bias", "o", "dq", "dk", "dv"))
_BACKWARD = Capabilities(strides="any", takes=("mask",), needs=("o", "lse"), max=_FEW)

# What the library takes any other kernel takes too: those of its own come first, so that few cases are enough for all.
KERNELS: tuple[PythonKernel, ...] = (
    PythonKernel(
        "attention-math", "attention", _TORCH, "torch", _MATH, _LIBRARY, entry="fused", options=(("backend", "MATH"),),
        summary="scaled_dot_product_attention by elementary operations",
    ),
    PythonKernel(
        "attention-fused", "attention", _TORCH, "torch", _FUSED, _LIBRARY, entry="fused",
        options=(("backend", "FLASH_ATTENTION"),), devices=("cpu",),
        summary="scaled_dot_product_attention, by blocks of keys",
    ),
    PythonKernel(
        "attention-blocks", "attention", _TRITON, "triton", _BLOCKED, _F32, laws=("rerun", "surroundings"),
        summary="blocks of 16 queries and keys, rescaled as the maximum grows",
    ),
    PythonKernel(
        "attention-tensor-cores", "attention", _TRITON, "triton", _CORES, _HALVES, laws=("rerun", "surroundings"),
        summary="the same of 16 bits, by tensor cores",
    ),
    PythonKernel(
        "attention-composed", "attention", _TORCH, "torch", _FREE, _ANYWHERE, entry="composed",
        summary="elementary operations",
    ),
    PythonKernel(
        "attention-backward-blocks", "attention_backward", _TRITON.with_name("attention_backward.py"), "triton",
        replace(_BLOCKED, sums=_GRADIENTS, algorithm={}), _BACKWARD, laws=("rerun", "surroundings"),
        summary="blocks of 16 queries and keys, twice: by queries, and by keys",
    ),
    PythonKernel(
        "attention-backward-composed", "attention_backward", _TORCH, "torch",
        replace(_FREE, sums=_GRADIENTS), replace(_ANYWHERE, mixed=_MIXED), summary="elementary operations",
    ),
)  # fmt: skip
