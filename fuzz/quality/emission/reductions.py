"""What emitted kernels do along a dimension, in C by dtype and order: reductions, recurrences, and choices by rank."""

from __future__ import annotations

import re

from fuzz.quality.emission.prelude import HELD, pieces
from oracles.formula.node import LAST, Node
from oracles.summation import AnyOrder, Lanes, Pairwise, Sequential, Summation, Tiles

_C = pieces("reductions.c")
FUSED = {"f32": "fmaf", "f64": "fma"}
"""The dtypes in which a product may go into a sum unrounded, and the function that does it."""


def rounded(dtype: str, expression: str) -> str:
    """Return an operation's result, given its expression in f32 or f64: in fewer bits it is rounded."""
    return f"round_{dtype}({expression})" if dtype in HELD else expression


def tree(dtype: str) -> str:
    """Return a function that adds up parts, each half to the other."""
    return _typed(_C["tree"], dtype)


def reduction(kind: str, name: str, dtype: str, order: Summation, *, fused: bool, turn: int) -> str:
    """Return a function that reduces n terms or, with `fused`, n products that are not rounded. Where the contract
    allows any order it has one of several, by `turn`."""
    text = _OTHERS[kind] if kind in _OTHERS else _sum(order, turn)
    step = rf"{FUSED[dtype]}(a[\2], b[\2], \1);" if fused else r"R(\1 + a[\2]);"
    text = re.sub(r"NEXT\((.+?), (.+?)\);", step, text)
    text = text.replace("TERMS", "const T *a, const T *b" if fused else "const T *a").replace("NAME", name)
    return _typed(text.replace("LANES", _lanes(order)), dtype)


def _typed(text: str, dtype: str) -> str:
    text = re.sub(r"\bR\(", f"round_{dtype}(" if dtype in HELD else "(", text)
    text = text.replace("EXP(", "exp(" if dtype == "f64" else "expf(").replace("tree_D", f"tree_{dtype}")
    return re.sub(r"\bT\b", dtype, text)


def _sum(order: Summation, turn: int) -> str:
    if isinstance(order, Sequential):
        return _C["sequential"]
    if isinstance(order, AnyOrder):
        return (_C["reversed"], _C["halves"], _C["sequential"])[turn % 3]
    if isinstance(order, Lanes):
        text = _C["lanes"] + (_C["predicated"] if order.tail == "predicated" else _C["scalar"])
        return text.replace("BLOCK", str(order.lanes * order.accumulators)).replace("WIDTH", str(order.lanes))
    if isinstance(order, Tiles):
        return _C["tiles"].replace("WIDTH", str(order.width))
    assert isinstance(order, Pairwise)
    return _C["pairwise"].replace("WIDTH", str(order.block))


def _lanes(order: Summation) -> str:
    """Return how many partial results are kept side by side."""
    if isinstance(order, Pairwise):
        return f"(n + {order.block - 1}) / {order.block}"
    if isinstance(order, Lanes | Tiles):
        most = order.width if isinstance(order, Tiles) else order.lanes * order.accumulators
        return f"n < {most} ? n : {most}"
    return "1"


_OTHERS = {
    "max": _C["max"], "online": _C["online"], "welford_mean": _C["welford"].replace("FOUND", "mean"),
    "welford_squares": _C["welford"].replace("FOUND", "squares"),
}  # fmt: skip


def recurrence(name: str, dtype: str, order: Summation, *, fused: bool, turn: int) -> str:
    """Return the definition of a function that takes n factors and n addends, and replaces the addends by the
    recurrence's values. Where the order is left open it is one of several, by `turn`."""
    several = [
        _C["place_by_place"],
        _C["joined"] + _C["scan_blocks"] + _C["started"],
        _C["joined"] + _C["scan_tree"] + _C["started"],
    ]
    text = _C["place_by_place"] if isinstance(order, Sequential) else several[turn % 3]
    step = rf"{FUSED[dtype]}(\1, \2, \3);" if fused and dtype in FUSED else r"R(R(\1 * \2) + \3);"
    text = re.sub(r"NEXT\((.+?), (.+?), (.+?)\);", step, text).replace("NAME", name)
    return re.sub(r"\bT\b", dtype, re.sub(r"\bR\(", f"round_{dtype}(" if dtype in HELD else "(", text))


def ordered(dtype: str) -> str:
    """Return the definition of the function that says where terms of a dtype stand, the largest one first."""
    return _C["ordered"].replace("T *a", f"{dtype} *a").replace("ordered_T", f"ordered_{dtype}")


def ordering(node: Node, dtype: str, count: str, turn: int) -> str:
    """Return the call for the terms of a node. Of equal ones whose order is left open one comes first by `turn`."""
    last = node.value == LAST or (not node.value and turn % 2 == 1)
    return f"ordered_{dtype}(terms_{dtype}, {count}, order_int64_t, {int(last)});"


def selected(node: Node, dtype: str, count: str, rank: str) -> str:
    """Return the value of such a node."""
    found = f"order_int64_t[(int64_t)({rank})]"
    return f"{count} ? (f64){found} : 0" if node.kind == "place" else f"{count} ? terms_{dtype}[{found}] : -INFINITY"
