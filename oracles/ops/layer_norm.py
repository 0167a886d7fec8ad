"""Op `layer_norm`: rows minus their mean, divided by their standard deviation."""

from oracles.formula.trace import Node, Outputs, avg, extent, rsqrt, welford_mean, welford_squares
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.rms_norm import EPS, RSTD, X

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
OP = Op(
    layer_norm, inputs=(X, WEIGHT, BIAS), outputs=(Operand("y", "... n"), MEAN, RSTD), parameters=(EPS,),
    aliases=(("y", "x"),), flips=(Flip(("x", "bias"), ("y", "mean"), True),), scaling={"x": 1, "mean": 1, "rstd": -1},
    algorithms={"h": APART, "mean": {"welford": lambda x: welford_mean(x, "n")},
                "var": {"moments": lambda x, mean: avg(x * x, "n") - mean * mean,
                        "welford": lambda x: welford_squares(x, "n") / extent("n")}},
    summary="rows less their mean, divided by their standard deviation, times a weight plus a bias",
)  # fmt: skip
