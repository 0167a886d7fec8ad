"""Op `group_norm_backward`: gradients of `group_norm`. mean and rstd are inputs, or calculated from x and eps."""

from dataclasses import replace

from oracles.formula.trace import Node, Outputs, avg, rsqrt, total
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.group_norm import GROUP, STATISTICS, WEIGHT, X
from oracles.ops.group_norm import OP as GROUP_NORM
from oracles.ops.layer_norm import APART
from oracles.ops.rms_norm import EPS


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
OP = Op(
    group_norm_backward, (X, replace(X, name="dy", values="gradient"), WEIGHT,
                          *(replace(each, values="local") for each in STATISTICS)),
    outputs=(replace(X, name="dx"), DW, DB), aliases=(("dx", "dy"), ("dx", "x")),
    flips=(Flip(("x", "mean"), ("dw",), True), Flip(("dy",), ("dx", "dw", "db"), True)), parameters=(EPS,),
    scaling={"x": 1, "mean": 1, "rstd": -1, "dx": -1}, algorithms={"h": APART}, shapes=GROUP_NORM.shapes,
    summary="gradients of group_norm by x, weight, bias",
)  # fmt: skip
