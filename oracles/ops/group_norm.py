"""Op `group_norm`: groups of channels minus their mean, divided by their standard deviation."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, avg, extent, rsqrt, welford_mean, welford_squares
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


OP = Op(
    group_norm, inputs=(X, WEIGHT, BIAS), outputs=(Operand("y", "b g c s"), *STATISTICS), parameters=(EPS,),
    aliases=(("y", "x"),), flips=(Flip(("x", "bias"), ("y", "mean"), True),), scaling={"x": 1, "mean": 1, "rstd": -1},
    algorithms={"h": APART, "mean": {"welford": lambda x: welford_mean(x, GROUP)},
                "var": {"moments": lambda x, mean: avg(x * x, GROUP) - mean * mean,
                        "welford": lambda x: welford_squares(x, GROUP) / extent(GROUP)}},
    shapes=({"g": 32, "c": 10}, {"g": 32, "c": 4, "s": 64}, {"g": 1, "c": 8}, {"c": 1}),
    summary="groups of channels less their mean, divided by their standard deviation, times a weight plus a bias",
)  # fmt: skip
