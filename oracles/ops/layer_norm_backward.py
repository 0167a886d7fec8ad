"""Op `layer_norm_backward`: gradients of `layer_norm`. mean and rstd are inputs, or calculated from x and eps."""

from oracles.formula.trace import Node, Outputs, avg, extent, rsqrt, total
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.layer_norm import APART, GIVEN_MEAN, WEIGHT
from oracles.ops.rms_norm import EPS, X
from oracles.ops.rms_norm_backward import DW, DX, DY_ALONG, GIVEN_RSTD, along


def layer_norm_backward(x: Node, dy: Node, weight: Node | None = None, mean: Node | None = None,
                        rstd: Node | None = None, *, eps: Node) -> Outputs:  # fmt: skip
    """With h = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - h mean(g h)), dw = sum dy h, db = sum dy."""
    mean = avg(x, "n") if mean is None else mean
    centred = x - mean
    rstd = rsqrt(avg(centred * centred, "n") + eps) if rstd is None else rstd
    h, g = centred * rstd, dy if weight is None else dy * weight
    return {"dx": rstd * (g - avg(g, "n") - h * avg(g * h, "n")), "dw": total(dy * h, "..."), "db": total(dy, "...")}


OP = Op(
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
