"""Op `rms_norm`: rows scaled by the reciprocal root of their mean square."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, avg, extent, point, rsqrt, welford_mean, welford_squares
from oracles.op import Op
from oracles.operand import Flip, Operand, Parameter

EPS = Parameter(
    "eps", (1e-5, 0.0, 1.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 10.0, 100.0), least=0.0, power=2
)
WEIGHT_OFFSET = Parameter("weight_offset", (0.0, 1.0, 0.5, -1.0), neutral=0.0, only_with="weight")
X = Operand("x", "... n")
WEIGHTS = Operand("weight", "n", optional=True, values="factor", stackable=True)
RSTD = Operand("rstd", "...", optional=True, dtype="f32")


def rms_norm(x: Node, weight: Node | None = None, *, eps: Node, weight_offset: Node | float = 0.0) -> Outputs:
    """y = x rstd (weight_offset + weight), rstd = 1/sqrt(mean(x^2) + eps). Without a weight y = x rstd."""
    rstd = root(x, eps)
    h = x * rstd
    if weight is None:
        return {"y": point(h), "rstd": rstd}
    w = weight_offset + weight
    return {"y": point(h) * w, "rstd": rstd}


def root(x: Node, eps: Node) -> Node:
    """Return the reciprocal root of the mean square of each row plus eps. Both may be rounded before they are added."""
    mean_square = avg(x * x, "n")
    return rsqrt(point(mean_square) + point(eps))


def _running(x: Node, eps: Node) -> Node:
    """Return `root` by the row's running mean and its squared distances, as a kernel does that also makes variances."""
    mean = welford_mean(x, "n")
    return rsqrt(welford_squares(x, "n") / extent("n") + mean * mean + eps)


OP = Op(
    rms_norm,
    inputs=(X, WEIGHTS),
    outputs=(Operand("y", "... n"), RSTD),
    parameters=(EPS, WEIGHT_OFFSET),
    aliases=(("y", "x"),),
    flips=(Flip(("x",), ("y",)),),
    scaling={"x": 1, "rstd": -1},
    algorithms={
        "y": {"weight first": lambda x, rstd, w=None: x * rstd if w is None else x * w * rstd},
        "rstd": {"running mean": _running},
    },
    summary="rows divided by their root mean square, times a weight",
)
