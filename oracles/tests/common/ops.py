"""Ops with algorithms, as a pack would bring them."""

from __future__ import annotations

from oracles.formula.trace import (
    Node,
    Outputs,
    avg,
    exp,
    extent,
    greatest,
    online_total,
    rsqrt,
    total,
    welford_mean,
    welford_squares,
)
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops.rms_norm import EPS

X = Operand("x", "... n")
DY = Operand("dy", "... n", values="gradient")
WEIGHT = Operand("weight", "n", optional=True, values="weight", stackable=True)
BIAS = Operand("bias", "n", optional=True)
STATISTICS = (Operand("mean", "...", optional=True, dtype="f32"), Operand("rstd", "...", optional=True, dtype="f32"))


def layer_norm(x: Node, weight: Node | None = None, bias: Node | None = None, *, eps: Node) -> Outputs:
    """y = (x - mean) rstd weight + bias, rstd = 1/sqrt(var + eps)."""
    mean = avg(x, "n")
    centred = x - mean
    var = avg(centred * centred, "n")
    rstd = rsqrt(var + eps)
    scaled = centred * rstd if weight is None else centred * rstd * weight
    return {"y": scaled if bias is None else scaled + bias, "mean": mean, "rstd": rstd}


def moments(x: Node, mean: Node) -> Node:
    """mean(x^2) - mean^2, which cancels."""
    return avg(x * x, "n") - mean * mean


def welford(x: Node) -> Node:
    """Kept up to date with the mean."""
    return welford_squares(x, "n") / extent("n")


LAYER_NORM = Op(
    layer_norm,
    inputs=(X, WEIGHT, BIAS),
    outputs=(Operand("y", "... n"), *STATISTICS),
    parameters=(EPS,),
    algorithms={"var": {"moments": moments, "welford": welford}, "mean": {"welford": lambda x: welford_mean(x, "n")}},
)


def softmax(x: Node) -> Outputs:
    """y = e / sum(e), e = e^(x - max(x))."""
    e = exp(x - greatest(x, "n"))
    norm = total(e, "n")
    return {"y": e / norm}


SOFTMAX = Op(
    softmax,
    inputs=(X,),
    outputs=(Operand("y", "... n"),),
    algorithms={"norm": {"online": lambda x: online_total(x, "n")}},
)


def layer_norm_backward(x: Node, dy: Node, weight: Node | None = None, *, eps: Node) -> Outputs:
    """dx = rstd (g - mean(g) - h mean(g h)), with h = (x - mean) rstd and g = dy weight."""
    mean = avg(x, "n")
    centred = x - mean
    rstd = rsqrt(avg(centred * centred, "n") + eps)
    h = centred * rstd
    g = dy if weight is None else dy * weight
    dx = (g - avg(g, "n") - h * avg(g * h, "n")) * rstd
    return {"dx": dx, "dw": total(dy * h, "..."), "db": total(dy, "...")}


def textbook(x: Node, mean: Node, rstd: Node, g: Node) -> Node:
    """By way of the variance and of the mean."""
    dvar = total(g * (x - mean), "n") * -0.5 * (rstd * rstd * rstd)
    dmean = -(total(g, "n") * rstd)
    return g * rstd + dvar * 2.0 * (x - mean) / extent("n") + dmean / extent("n")


def affine(x: Node, mean: Node, rstd: Node, g: Node) -> Node:
    """a g + b x + c, with coefficients of the row."""
    ds, db = total(g * x, "n"), total(g, "n")
    b = (db * mean - ds) * rstd * rstd * rstd / extent("n")
    c = -(b * mean) - db * rstd / extent("n")
    return rstd * g + b * x + c


LAYER_NORM_BACKWARD = Op(
    layer_norm_backward,
    inputs=(X, DY, WEIGHT),
    outputs=(Operand("dx", "... n"), Operand("dw", "n", only_with="weight"), Operand("db", "n", optional=True)),
    parameters=(EPS,),
    algorithms={"dx": {"textbook": textbook, "affine": affine}},
)
