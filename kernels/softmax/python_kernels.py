"""softmax, log_softmax and their gradients in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, Contract, Pairwise, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "softmax.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "softmax.py"

# They divide with div_rn.
_CORRECT = {"divide": 0.5}
# A thread adds up to 128 elements of a row that registers hold, one after the other; then a tree adds 128 threads.
_KEPT = Contract(sums={"n": Pairwise(128)}, accuracy=_CORRECT)
# A block of 1024 is added by 8 in each thread and a tree, and each of up to 32 blocks adds one more to the chain.
_ONLINE = Contract(sums={"n": Pairwise(48)}, accuracy=_CORRECT, algorithm={"mass": "online"})
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "surroundings")

_ROWS = Capabilities(
    dtypes=("f32", "f16", "bf16"),
    strides="pitched",
    aliases=(("y", "x"),),
    mixed=(("y", ("x", "f32")),),
    max={"n": 32768},
)
_ANYWHERE = replace(_ROWS, axis="any", strides="any", max={})
_BACKWARD = replace(_ANYWHERE, aliases=(("dx", "dy"), ("dx", "y")), mixed=())

# torch adds in an order that depends on device, layout and thread count.
_FREE = Contract()
# On a processor it multiplies by the reciprocal of the sum. Along other axes than the last it rounds exponentials to
# bf16 before it does: y is then off by nearly an ulp.
_NATIVE = Contract(algorithm={"y": "reciprocal"})
_LAST = replace(_ANYWHERE, axis="last")
# Sums of 16-bit rows are rounded to 16 bits before their logarithm is taken: one of 65536 in f16 is infinite.
_WIDE = replace(_ANYWHERE, dtypes=("f32",), mixed=())


def _triton(op: str, path: str, contract: Contract, able: Capabilities, summary: str) -> PythonKernel:
    name = f"{op.replace('_', '-')}-{path.replace('_', '-')}"
    return PythonKernel(
        name, op, _TRITON, "triton", contract, able, options=(("path", path),), laws=_LAWS, summary=summary
    )


def _torch(op: str, kind: str, contract: Contract, able: Capabilities, summary: str) -> PythonKernel:
    entry = f"native_{op}" if kind == "native" else ""
    return PythonKernel(
        f"{op.replace('_', '-')}-{kind}", op, _TORCH, "torch", contract, able, entry=entry,
        devices=("cpu",) if kind == "native" else (), summary=summary,
    )  # fmt: skip


_OPS = ("softmax", "log_softmax")
KERNELS: tuple[PythonKernel, ...] = (
    *(_triton(op, "whole_row", _KEPT, replace(_ROWS, max={"n": 16384}), "a row in registers") for op in _OPS),
    *(_triton(op, "online", _ONLINE, _ROWS, "a row by blocks, the sum scaled again as it goes") for op in _OPS),
    *(_torch(op, "eager", _FREE, _ANYWHERE, "elementary operations") for op in _OPS),
    *(_torch(f"{op}_backward", "eager", _FREE, _BACKWARD, "elementary operations") for op in _OPS),
    _torch("softmax", "native", _NATIVE, _LAST, "torch.softmax"),
    _torch("log_softmax", "native", _FREE, _WIDE, "torch.log_softmax"),
    *(_torch(f"{op}_backward", "native", _FREE, _BACKWARD, "what autograd calls") for op in _OPS),
)
