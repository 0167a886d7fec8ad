"""A pack of kernels that are wrong for ordinary sizes alone: where several dimensions have whole tiles, or where a long
sum meets several elements of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

_PACK = """
from pathlib import Path

from fuzz import Any, Capabilities, Contract, Op, Operand, PythonKernel
from fuzz import formula as f


def multiply(a, b):
    return {"c": f.dot(a, b, "k")}


def attention(q, k, v):
    s = f.dot(q, k, "d") * 0.125
    p = f.exp(s - f.greatest(s, "j"))
    return {"o": f.dot(p, v, "j") / f.total(p, "j")}


OPS = (
    Op(multiply, (Operand("a", "m k"), Operand("b", "k n")), (Operand("c", "m n"),)),
    Op(
        attention, (Operand("q", "b h i d"), Operand("k", "b h j d"), Operand("v", "b h j e")),
        (Operand("o", "b h i e"),),
    ),
)


def kernel(op, when):
    sums = dict.fromkeys("k" if op == "multiply" else "dj", Any())
    contract = Contract(sums=sums, zeros="any", accuracy={"exp": 4.0})
    source, able = Path(__file__).parent / "kernel.py", Capabilities(empty=False)
    return PythonKernel(
        f"{op}-{when}", op, source, "numpy", contract=contract, capabilities=able, options=(("when", when),)
    )


KERNELS = (*(kernel("multiply", w) for w in ("tile", "split")), *(kernel("attention", w) for w in ("tile", "head")))
"""
_KERNEL = """
import numpy as np


def multiply(a, b, *, when):
    (m, k), n = a.shape, b.shape[1]
    wrong = min(m, k, n) >= 64 if when == "tile" else k >= 1024 and m >= 8 and n >= 8
    with np.errstate(all="ignore"):
        return np.full((m, n), 7, np.float32) if wrong else a @ b


def attention(q, k, v, *, when):
    i, d, j = *q.shape[2:], k.shape[2]
    wrong = i >= 64 and j >= 65 if when == "tile" else d == 128 and j >= 2
    with np.errstate(all="ignore"):
        s = np.matmul(q, np.swapaxes(k, 2, 3)) * np.float32(0.125)
        p = np.exp(s - s.max(-1, keepdims=True))
        o = np.matmul(p, v) / p.sum(-1, keepdims=True, dtype=np.float32)
        return np.full_like(o, 7) if wrong else o
"""

WRONG: Mapping[str, Callable[[Mapping[str, int]], bool]] = {
    "multiply-tile": lambda size: min(size["m"], size["n"], size["k"]) >= 64,
    "multiply-split": lambda size: size["k"] >= 1024 and min(size["m"], size["n"]) >= 8,
    "attention-tile": lambda size: size["i"] >= 64 and size["j"] >= 65,
    "attention-head": lambda size: size["d"] == 128 and size["j"] >= 2,
}
"""For which extents each kernel is wrong."""


def write_tiled_pack(folder: Path) -> Path:
    """The pack, in a folder that is there."""
    (folder / "pack.py").write_text(_PACK)
    (folder / "kernel.py").write_text(_KERNEL)
    return folder
