"""Exponentials of the elements of each row, divided by their sum, and their logarithms; and the gradients."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, exp, exp2, greatest, log, online_total, total
from oracles.op import Op
from oracles.operand import Flip, Operand

LOGITS = Operand("x", "... n", values="logits")
Y, DX, DY = Operand("y", "... n"), Operand("dx", "... n"), Operand("dy", "... n", values="gradient")
ONLINE = {"online": lambda x: online_total(x, "n")}


def base_2(x: Node) -> Node:
    """Return e^(x - maximum) by a power of 2. x and the maximum are first divided by log(2) and rounded, so that the
    error grows with x, not with the difference."""
    units = x * (1.0 / log(2.0))
    return exp2(units - greatest(units, "n"))


def softmax(x: Node) -> Outputs:
    """y = exp(x - max(x)) / sum(exp(x - max(x))). A row of minus infinities gives NaN."""
    e = exp(x - greatest(x, "n"))
    mass = total(e, "n")
    return {"y": e / mass}


SOFTMAX = Op(
    softmax, inputs=(LOGITS,), outputs=(Y,), aliases=(("y", "x"),),
    algorithms={"e": {"base 2": base_2}, "y": {"reciprocal": lambda e, mass: e * (1.0 / mass)}, "mass": ONLINE},
    summary="exponentials of rows, divided by their sum",
)  # fmt: skip


PROBABILITIES = Operand("y", "... n", values="probabilities")


def softmax_backward(y: Node, dy: Node) -> Outputs:
    """dx = y (dy - sum(y dy))."""
    dotted = total(y * dy, "n")
    return {"dx": y * (dy - dotted)}


SOFTMAX_BACKWARD = Op(
    softmax_backward, inputs=(PROBABILITIES, DY), outputs=(DX,), aliases=(("dx", "dy"), ("dx", "y")),
    flips=(Flip(("dy",), ("dx",), zeros=True),), scaling={"dy": 1, "dx": 1},
    algorithms={"dx": {"products": lambda y, dy, dotted: y * dy - y * dotted}},
    summary="gradient of softmax, from its output",
)  # fmt: skip


def log_softmax(x: Node) -> Outputs:
    """y = (x - max(x)) - log(sum(exp(x - max(x)))). A row all of minus infinity gives NaN."""
    shifted = x - greatest(x, "n")
    mass = total(exp(shifted), "n")
    return {"y": shifted - log(mass)}


LOG_SOFTMAX = Op(
    log_softmax, inputs=(LOGITS,), outputs=(Y,), aliases=(("y", "x"),), algorithms={"mass": ONLINE},
    summary="logarithms of the softmax of rows",
)  # fmt: skip


LOGARITHMS = Operand("y", "... n", values="log_probabilities")


def log_softmax_backward(y: Node, dy: Node) -> Outputs:
    """dx = dy - exp(y) sum(dy)."""
    mass = total(dy, "n")
    return {"dx": dy - exp(y) * mass}


LOG_SOFTMAX_BACKWARD = Op(
    log_softmax_backward, inputs=(LOGARITHMS, DY), outputs=(DX,), aliases=(("dx", "dy"), ("dx", "y")),
    flips=(Flip(("dy",), ("dx",), zeros=True),), scaling={"dy": 1, "dx": 1},
    summary="gradient of log_softmax, from its output",
)  # fmt: skip
