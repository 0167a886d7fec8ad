"""A pack of kernels that are wrong for ordinary sizes alone, or one stride: where several dimensions have whole tiles,
where a long sum meets several elements of the others, behind the first 512 keys, where a batch shares one matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame

_PACK = """
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, Op, Operand, PythonKernel
from fuzz import formula as f


def multiply(a, b):
    return {"c": f.dot(a, b, "k")}


def attended(q, k, v):
    s = f.dot(q, k, "d") * 0.125
    p = f.exp(s - f.greatest(s, "j"))
    return {"o": f.dot(p, v, "j") / f.total(p, "j")}


def batched(x, w):
    return {"y": f.dot(x, w, "k")}


OPS = (
    Op(batched, (Operand("x", "b m k"), Operand("w", "b k n")), (Operand("y", "b m n"),)),
    Op(multiply, (Operand("a", "m k"), Operand("b", "k n")), (Operand("c", "m n"),)),
    Op(
        attended, (Operand("q", "b h i d"), Operand("k", "b h j d"), Operand("v", "b h j e")),
        (Operand("o", "b h i e"),),
    ),
)


def kernel(op, when):
    sums = dict.fromkeys("dj" if op == "attended" else "k", AnyOrder())
    contract = Contract(sums=sums, zeros="any", accuracy={"exp": 4.0})
    source = Path(__file__).parent / "kernel.py"
    able = Capabilities(empty=False, strides="any" if op == "batched" else "contiguous")
    return PythonKernel(
        f"{op}-{when}", op, source, "numpy", contract=contract, capabilities=able, options=(("when", when),)
    )


WRONG = {"multiply": ("tile", "split", "wide"), "attended": ("tile", "head", "keys"), "batched": ("shared",)}
KERNELS = tuple(kernel(op, when) for op, each in WRONG.items() for when in each)
"""
_KERNEL = """
import numpy as np


def multiply(a, b, *, when):
    (m, k), n = a.shape, b.shape[1]
    wrong = {"tile": min(m, k, n) >= 64, "split": k >= 1024 and min(m, n) >= 8, "wide": n >= 1024}[when]
    with np.errstate(all="ignore"):
        return np.full((m, n), 7, np.float32) if wrong else a @ b


def attended(q, k, v, *, when):
    i, d, j = *q.shape[2:], k.shape[2]
    wrong = {"tile": i >= 64 and j >= 65, "head": d == 128 and j >= 2, "keys": j > 512}[when]
    with np.errstate(all="ignore"):
        s = np.matmul(q, np.swapaxes(k, 2, 3)) * np.float32(0.125)
        p = np.exp(s - s.max(-1, keepdims=True))
        o = np.matmul(p, v) / p.sum(-1, keepdims=True, dtype=np.float32)
        return np.full_like(o, 7) if wrong else o


def batched(x, w, *, when):
    wrong = min(w.shape) > 1 and w.strides == (0, 4 * w.shape[2], 4)
    with np.errstate(all="ignore"):
        return np.full((*x.shape[:2], w.shape[2]), 7, np.float32) if wrong else np.matmul(x, w)
"""

WRONG: Mapping[str, Callable[[Case], bool]] = {
    "multiply-tile": lambda case: min(_sizes(case, "m n k")) >= 64,
    "multiply-split": lambda case: _sizes(case, "k")[0] >= 1024 and min(_sizes(case, "m n")) >= 8,
    "multiply-wide": lambda case: _sizes(case, "n")[0] >= 1024,
    "attended-tile": lambda case: _sizes(case, "i")[0] >= 64 and _sizes(case, "j")[0] >= 65,
    "attended-head": lambda case: _sizes(case, "d")[0] == 128 and _sizes(case, "j")[0] >= 2,
    "attended-keys": lambda case: _sizes(case, "j")[0] > 512,
    "batched-shared": lambda case: _is_shared(case, "w"),
}
"""In which cases each kernel is wrong."""


def _sizes(case: Case, dims: str) -> list[int]:
    sizes = Frame(case).sizes
    return [sizes[dim] for dim in dims.split()]


def _is_shared(case: Case, name: str) -> bool:
    layout = case.inputs[name].layout
    return min(layout.shape) > 1 and layout.strides == (0, layout.shape[2], 1)


def write_tiled_pack(folder: Path) -> Path:
    """The pack, in a folder that is there."""
    (folder / "pack.py").write_text(_PACK)
    (folder / "kernel.py").write_text(_KERNEL)
    return folder
