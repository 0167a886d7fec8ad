"""Groups of channels minus their mean, divided by their standard deviation; and the gradients."""

from __future__ import annotations

from dataclasses import replace

from oracles.formula.trace import Node, Outputs, avg, extent, rsqrt, total, welford_mean, welford_squares
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.layer_norm import APART
from oracles.ops.rms_norm import EPS

GROUP = ("c", "s")
"""The dimensions of a row: the channels of a group, and the places of a channel."""
X = Operand("x", "b g c s")
WEIGHT, BIAS = (Operand(name, "g c", optional=True, values="factor") for name in ("weight", "bias"))
STATISTICS = tuple(Operand(name, "b g", optional=True, dtype="f32") for name in ("mean", "rstd"))


def group_norm(x: Node, weight: Node | None = None, bias: Node | None = None, *, eps: Node) -> Outputs:
    """y = (x - mean) rstd weight + bias, rstd = 1/sqrt(mean((x - mean)^2) + eps), with means over all places of all
    channels of a group."""
    mean = avg(x, GROUP)
    centred = x - mean
    var = avg(centred * centred, GROUP)
    rstd = rsqrt(var + eps)
    h = centred * rstd
    scaled = h if weight is None else h * weight
    return {"y": scaled if bias is None else scaled + bias, "mean": mean, "rstd": rstd}


GROUP_NORM = Op(
    group_norm, inputs=(X, WEIGHT, BIAS), outputs=(Operand("y", "b g c s"), *STATISTICS), parameters=(EPS,),
    aliases=(("y", "x"),), flips=(Flip(("x", "bias"), ("y", "mean"), True),), scaling={"x": 1, "mean": 1, "rstd": -1},
    algorithms={"h": APART, "mean": {"welford": lambda x: welford_mean(x, GROUP)},
                "var": {"moments": lambda x, mean: avg(x * x, GROUP) - mean * mean,
                        "welford": lambda x: welford_squares(x, GROUP) / extent(GROUP)}},
    shapes=({"g": 32, "c": 10}, {"g": 32, "c": 4, "s": 64}, {"g": 1, "c": 8}, {"c": 1}),
    summary="groups of channels less their mean, divided by their standard deviation, times a weight plus a bias",
)  # fmt: skip


def group_norm_backward(x: Node, dy: Node, weight: Node | None = None, mean: Node | None = None,
                        rstd: Node | None = None, *, eps: Node) -> Outputs:  # fmt: skip
    """With h = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - h mean(g h)), dw = sum dy h, db = sum dy,
    sums over all places of a channel."""
    mean = avg(x, GROUP) if mean is None else mean
    centred = x - mean
    rstd = rsqrt(avg(centred * centred, GROUP) + eps) if rstd is None else rstd
    h, g = centred * rstd, dy if weight is None else dy * weight
    dx = rstd * (g - avg(g, GROUP) - h * avg(g * h, GROUP))
    return {"dx": dx, "dw": total(dy * h, ("b", "s")), "db": total(dy, ("b", "s"))}


DW, DB = (Operand(name, "g c", True, dtype="weight", only_with="weight") for name in ("dw", "db"))
GROUP_NORM_BACKWARD = Op(
    group_norm_backward, (X, replace(X, name="dy", values="gradient"), WEIGHT,
                          *(replace(each, values="local") for each in STATISTICS)),
    outputs=(replace(X, name="dx"), DW, DB), aliases=(("dx", "dy"), ("dx", "x")),
    flips=(Flip(("x", "mean"), ("dw",), True), Flip(("dy",), ("dx", "dw", "db"), True)), parameters=(EPS,),
    scaling={"x": 1, "mean": 1, "rstd": -1, "dx": -1}, algorithms={"h": APART}, shapes=GROUP_NORM.shapes,
    summary="gradients of group_norm by x, weight, bias",
)  # fmt: skip
