"""Ops that select by order: routing, places of maxima, sorted rows, elements that are taken at such places."""

from __future__ import annotations

from oracles.formula.trace import (
    Node,
    Outputs,
    argmax,
    argmin,
    argsort,
    exp,
    greatest,
    position,
    sort,
    take,
    topk,
    total,
    where,
)
from oracles.op import Op
from oracles.operand import Operand

X = Operand("x", "... n")


def _softmax(x: Node) -> Node:
    e = exp(x - greatest(x, "n"))
    return e / total(e, "n")


def routed(x: Node) -> Outputs:
    """The two largest probabilities of each row, which add up to 1 then, and whose they are."""
    weights, places = topk(_softmax(x), 2, "n")
    return {"weights": weights / total(weights, "k"), "places": places}


def best(x: Node) -> Outputs:
    """Where the largest and the smallest elements stand, and the last of the largest ones."""
    return {"most": argmax(x, "n"), "least": argmin(x, "n"), "last": argmax(x, "n", "last")}


def ordered(x: Node) -> Outputs:
    """Rows in order, and where their elements stood, the first ones first; the places from the largest down."""
    y, places = sort(x, "n", "first")
    return {"y": y, "places": places, "down": argsort(x, "n", descending=True)}


def squared(x: Node) -> Outputs:
    """The places of squares in order, which kernels round, and the squares."""
    y, places = sort(x * x, "n", descending=True)
    return {"y": y, "places": places}


def chosen(table: Node, x: Node) -> Outputs:
    """The row of the table that a vector scores highest, as it is; how far its place is from the end."""
    at = argmax(_softmax(x), "n")
    return {"row": take(table, at, "n", outside=0.0), "left": where(position("n") == at, x, 0.0)}


ROUTED = Op(routed, (X,), (Operand("weights", "... k"), Operand("places", "... k", dtype="int64")))
BEST = Op(best, (X,), tuple(Operand(name, "...", dtype="int64") for name in ("most", "least", "last")))
ORDERED = Op(
    ordered,
    (X,),
    (Operand("y", "... n"), Operand("places", "... n", dtype="int64"), Operand("down", "... n", dtype="int32")),
)
SQUARED = Op(squared, (X,), (Operand("y", "... n"), Operand("places", "... n", dtype="int64")))
CHOSEN = Op(chosen, (Operand("table", "n d"), Operand("x", "b n")), (Operand("row", "b d"), Operand("left", "b n")))
ALL = (ROUTED, BEST, ORDERED, SQUARED, CHOSEN)
