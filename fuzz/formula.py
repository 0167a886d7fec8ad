"""What a pack writes the formula of an op with: `from fuzz import formula as f`, then `f.exp(x)`.

A formula is ordinary Python: operators, and these functions, on `Node`s. See `oracles/formula/trace.py`.
"""

from __future__ import annotations

from oracles.formula.trace import (
    FormulaError,
    Node,
    Outputs,
    avg,
    cos,
    dot,
    erf,
    exp,
    extent,
    greatest,
    log,
    online_total,
    point,
    position,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    take,
    tanh,
    total,
    welford_mean,
    welford_squares,
    where,
)

__all__ = [
    "FormulaError", "Node", "Outputs", "avg", "cos", "dot", "erf", "exp", "extent", "greatest", "log",
    "online_total", "point", "position", "rsqrt", "sigmoid", "sin", "sqrt", "take", "tanh", "total", "welford_mean",
    "welford_squares", "where",
]  # fmt: skip
