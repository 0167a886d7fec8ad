"""Ops that are linear recurrences, or products along a dimension."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, cumprod, dot, exp, prod, scan
from oracles.op import Op
from oracles.operand import Operand


def decayed(x: Node, a: Node, start: Node) -> Outputs:
    """The sum of all x so far, of which the share a is left at each place."""
    return {"y": scan(a, x, "t", start)}


def selective(x: Node, decay: Node, b: Node, c: Node) -> Outputs:
    """h(t) = e^(-decay) h(t - 1) + b(t) x(t), of which each place reads what c says."""
    h = scan(exp(-decay * decay), b * x, "t")
    return {"y": dot(h, c, "s")}


def products(x: Node) -> Outputs:
    """All products so far, and that of all."""
    return {"y": cumprod(x, "t"), "z": prod(x, "t")}


_X, _Y = Operand("x", "... t d"), Operand("y", "... t d")
DECAYED = Op(decayed, (_X, Operand("a", "t d"), Operand("start", "... d")), (_Y,))
SELECTIVE = Op(selective, (_X, Operand("decay", "t d"), Operand("b", "t s"), Operand("c", "t s")), (_Y,))
PRODUCTS = Op(products, (Operand("x", "... t"),), (Operand("y", "... t"), Operand("z", "...")))
OPS = (DECAYED, SELECTIVE, PRODUCTS)
