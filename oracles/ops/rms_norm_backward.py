"""Op `rms_norm_backward`: gradients of `rms_norm` by x and by its weight."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oracles.formula.trace import Node, Outputs, avg, total
from oracles.op import Flip, Op, Operand
from oracles.ops.rms_norm import EPS, RSTD, WEIGHT_OFFSET, WEIGHTS, X, root

DY = Operand("dy", "... n", values="gradient")
DY_ALONG = replace(DY, values="gradient along")
WEIGHT = replace(WEIGHTS, stackable=False)
GIVEN_RSTD = replace(RSTD, values="local")
DX = Operand("dx", "... n")
DW = Operand("dw", "n", optional=True, only_with="weight", dtype="weight")


def rms_norm_backward(
    x: Node,
    dy: Node,
    weight: Node | None = None,
    rstd: Node | None = None,
    *,
    eps: Node,
    weight_offset: Node | float = 0.0,
) -> Outputs:
    """With h = x rstd and m = dy (weight_offset + weight): dx = rstd (m - h mean(h m)), dw = sum of dy h over the rows.

    rstd is taken as it is given, or formed from x and eps.
    """
    if rstd is None:
        rstd = root(x, eps)
    h, m = x * rstd, dy
    if weight is not None:
        w = weight_offset + weight
        m = dy * w
    dx = rstd * (m - h * avg(h * m, "n"))
    return {"dx": dx, "dw": total(dy * h, "...")}


def rstd3(x: Node, rstd: Node, m: Node) -> Node:
    """dx with the cube of rstd formed, which may overflow."""
    return rstd * m - rstd * rstd * rstd * avg(m * x, "n") * x


def along(rows: Any, scene: Any, stream: Any) -> Any:
    """Gradients that are, times the weight, proportional to the rows times rstd: all of dx cancels but rounding errors
    and eps."""
    import numpy as np

    size = np.ldexp(1.0, stream.child("size").integers(scene.rows, -4, 4))[:, None]
    with np.errstate(all="ignore"):
        offset = scene.parameters.get(WEIGHT_OFFSET.name, 0.0)
        weight = offset + scene.values["weight"] if "weight" in scene.values else np.ones(1)
        found = rows * scene.local("rstd")[:, None] * size / np.where(np.isfinite(weight) & (weight != 0), weight, 1.0)
    return np.where(np.isfinite(found), found, 1.0)


ALONG = {"along": lambda scene, stream: along(scene.values["x"], scene, stream)}

OP = Op(
    rms_norm_backward,
    inputs=(X, DY_ALONG, WEIGHT, GIVEN_RSTD),
    outputs=(DX, DW),
    parameters=(EPS, WEIGHT_OFFSET),
    aliases=(("dx", "dy"), ("dx", "x")),
    flips=(Flip(("x",), ("dw",), zeros=True), Flip(("dy",), ("dx", "dw"), zeros=True)),
    scaling={"x": 1, "rstd": -1, "dx": -1},
    recipes=ALONG,
    algorithms={"dx": {"rstd3": rstd3}},
    summary="gradients of rms_norm by x and weight",
)
