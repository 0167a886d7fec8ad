"""Rows minus their mean, divided by their standard deviation; and the gradients."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, avg, extent, rsqrt, total, welford_mean, welford_squares
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.rms_norm import DW, DX, DY_ALONG, EPS, GIVEN_RSTD, RSTD, X, along

WEIGHT, BIAS = (Operand(name, "n", optional=True, values="factor") for name in ("weight", "bias"))
MEAN, GIVEN_MEAN = (Operand("mean", "...", True, values, "f32") for values in ("any", "local"))


def layer_norm(x: Node, weight: Node | None = None, bias: Node | None = None, *, eps: Node) -> Outputs:
    """y = (x - mean) rstd weight + bias, rstd = 1/sqrt(mean((x - mean)^2) + eps)."""
    mean = avg(x, "n")
    centred = x - mean
    var = avg(centred * centred, "n")
    rstd = rsqrt(var + eps)
    h = centred * rstd
    scaled = h if weight is None else h * weight
    return {"y": scaled if bias is None else scaled + bias, "mean": mean, "rstd": rstd}


APART = {"apart": lambda x, mean, rstd: x * rstd - mean * rstd}
LAYER_NORM = Op(
    layer_norm, inputs=(X, WEIGHT, BIAS), outputs=(Operand("y", "... n"), MEAN, RSTD), parameters=(EPS,),
    aliases=(("y", "x"),), flips=(Flip(("x", "bias"), ("y", "mean"), True),), scaling={"x": 1, "mean": 1, "rstd": -1},
    algorithms={"h": APART, "mean": {"welford": lambda x: welford_mean(x, "n")},
                "var": {"moments": lambda x, mean: avg(x * x, "n") - mean * mean,
                        "welford": lambda x: welford_squares(x, "n") / extent("n")}},
    summary="rows less their mean, divided by their standard deviation, times a weight plus a bias",
)  # fmt: skip


def layer_norm_backward(x: Node, dy: Node, weight: Node | None = None, mean: Node | None = None,
                        rstd: Node | None = None, *, eps: Node) -> Outputs:  # fmt: skip
    """With h = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - h mean(g h)), dw = sum dy h, db = sum dy."""
    mean = avg(x, "n") if mean is None else mean
    centred = x - mean
    rstd = rsqrt(avg(centred * centred, "n") + eps) if rstd is None else rstd
    h, g = centred * rstd, dy if weight is None else dy * weight
    return {"dx": rstd * (g - avg(g, "n") - h * avg(g * h, "n")), "dw": total(dy * h, "..."), "db": total(dy, "...")}


LAYER_NORM_BACKWARD = Op(
    layer_norm_backward, (X, DY_ALONG, WEIGHT, GIVEN_MEAN, GIVEN_RSTD),
    outputs=(DX, DW, Operand("db", "n", True, dtype="weight", only_with="weight")), aliases=(("dx", "dy"), ("dx", "x")),
    flips=(Flip(("x", "mean"), ("dw",), True), Flip(("dy",), ("dx", "dw", "db"), True)), parameters=(EPS,),
    scaling={"x": 1, "mean": 1, "rstd": -1, "dx": -1},
    algorithms={"h": APART, "dx": {"linear": lambda x, g, mean, rstd: (
        rstd * g + (b := (total(g, "n") * mean - total(g * x, "n")) * rstd * rstd * rstd / extent("n")) * x
        + (-b * mean - total(g, "n") * rstd / extent("n")))}},
    summary="gradients of layer_norm by x, weight, bias",
    recipes={"along": lambda scene, stream: along(scene.local("centred"), scene, stream)},
)  # fmt: skip
