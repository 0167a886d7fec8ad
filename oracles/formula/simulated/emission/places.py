"""Loops, places in arrays, and values of one dtype in another, as C has them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from oracles.formula.trace import Node
from oracles.operand import OUTER

VARIABLES = {OUTER: "r", "": "i"}
"""What counts along a dimension."""
EXTENTS = {OUTER: "rows", "": "n"}
"""Up to where it counts."""


def along(dim: str) -> str:
    """The key of both: "..." for the rows, "" for what lies along one."""
    return OUTER if dim == OUTER else ""


def count(dims: frozenset[str]) -> str:
    """The number of elements of these dimensions."""
    return " * ".join(EXTENTS[key] for key in sorted(map(along, dims), reverse=True)) or "1"


def index(dims: frozenset[str]) -> str:
    """The place in an array of these dimensions."""
    return "r * n + i" if len(dims) == 2 else "".join(VARIABLES[along(dim)] for dim in dims) or "0"


def looped(dims: frozenset[str] | set[str], lines: Sequence[str]) -> list[str]:
    """Lines within a function, for each element of these dimensions."""
    return (
        [f"    {line}" for line in loops(dims, lines)]
        if dims
        else [f"    {line}" for line in ["{", *(f"    {line}" for line in lines), "}"]]
    )


def loops(dims: frozenset[str] | set[str], lines: Sequence[str]) -> list[str]:
    """Lines for each element of these dimensions."""
    found = list(lines)
    for key in sorted(map(along, dims)):
        at, extent = VARIABLES[key], EXTENTS[key]
        found = [f"for (int64_t {at} = 0; {at} < {extent}; {at}++) {{", *(f"    {line}" for line in found), "}"]
    return found


def converted(expression: str, known: str, wanted: str) -> str:
    """A value that fits into the dtype `known`, in the dtype that is wanted."""
    if known == wanted or (wanted == "f32" and known in ("f16", "bf16")):
        return expression
    if wanted in ("f32", "f64"):
        return f"({wanted}){expression}"
    return f"{'to' if known == 'f64' else 'round'}_{wanted}({expression})"


def number(node: Node) -> str:
    """The value of a node that has no arguments and is no tensor, in f64."""
    if node.kind == "parameter":
        return f"(f64)call->{node.label}"
    if node.kind in ("extent", "position"):
        return f"(f64){(EXTENTS if node.kind == 'extent' else VARIABLES)[along(node.label)]}"
    if math.isnan(node.value) or math.isinf(node.value):
        return "NAN" if math.isnan(node.value) else "INFINITY" if node.value > 0 else "-INFINITY"
    return f"({node.value.hex()})"


def function(kind: str, dtype: str) -> str:
    """The function of the C library, or of the prelude."""
    if kind == "sigmoid":
        return f"sigmoid_{'f64' if dtype == 'f64' else 'f32'}"
    return kind if dtype == "f64" else f"{kind}f"
