"""The functions with which a pack writes the formula of an op: `from fuzz import formula as f`, then `f.exp(x)`.

A formula is ordinary Python with operators, these functions and all elementary functions, on `Node`s. See
`oracles/formula/trace.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from oracles.elementary.functions import NAMES
from oracles.formula.trace import (
    FormulaError,
    Node,
    Outputs,
    argmax,
    argmin,
    argsort,
    avg,
    cumprod,
    dot,
    elementary,
    extent,
    greatest,
    online_dot,
    online_total,
    point,
    position,
    prod,
    scan,
    sort,
    take,
    topk,
    total,
    welford_mean,
    welford_squares,
    where,
)

__all__ = [  # noqa: PLE0604 (`NAMES` are strings)
    "FormulaError", "Node", "Outputs", "argmax", "argmin", "argsort", "avg", "cumprod", "dot", "extent", "greatest",
    "online_dot", "online_total", "point", "position", "prod", "scan", "sort", "take", "topk", "total", "welford_mean",
    "welford_squares", "where",
    *NAMES,
]  # fmt: skip


def __getattr__(name: str) -> Callable[..., Node]:
    """Return the elementary function with this name, which maps a node to a node."""
    if name not in NAMES:
        known = ", ".join(sorted(each for each in __all__ if each.islower()))
        raise AttributeError(f"fuzz.formula has no function {name!r}; it has {known}")
    return elementary(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
