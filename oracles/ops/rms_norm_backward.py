"""Op `rms_norm_backward`: gradients of `rms_norm` with respect to x and the weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from oracles.formula.trace import Node, Outputs, avg, extent, point, total
from oracles.op import Op
from oracles.operand import Flip, Operand
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
    """With h = x rstd and g = dy (weight_offset + weight): dx = rstd (g - h mean(h g)), dw = sum of dy h over the rows.

    rstd is an input, or calculated from x and eps. g, dx and dw may be rounded, and so may h and the terms dy h of dw.
    """
    dx, dw = gradients(x, dy, weight, root(x, eps) if rstd is None else rstd, weight_offset)
    return {"dx": point(dx), "dw": point(dw)}


def gradients(x: Node, dy: Node, weight: Node | None, rstd: Node, weight_offset: Node | float) -> tuple[Node, Node]:
    """Return the gradients with respect to x and the weight."""
    h, g = x * rstd, dy
    if weight is not None:
        w = weight_offset + weight
        m = dy * w
        g = point(m)
    dx = rstd * (g - h * avg(h * g, "n"))
    terms = dy * point(h)
    dw = total(point(terms), "...")
    return dx, dw


ALGORITHMS: Mapping[str, Mapping[str, Callable[..., Node]]] = {
    "dx": {
        # With the cube of rstd, which may overflow or underflow: before the mean, divided by n, or factor by factor.
        "rstd3": lambda x, rstd, g: rstd * g - rstd * rstd * rstd * avg(g * x, "n") * x,
        "rstd3 over n": lambda x, rstd, g: rstd * g - 1.0 / extent("n") * rstd * rstd * rstd * total(g * x, "n") * x,
        "sum times rstd3": lambda x, rstd, g: rstd * g - total(g * x, "n") * rstd * rstd * rstd / extent("n") * x,
        "rstd2 over n": lambda x, rstd, g: rstd * g - rstd * (1.0 / extent("n") * rstd * rstd * total(g * x, "n") * x),
        "rstd first": lambda x, rstd, g: (r := rstd * g) - x * (rstd * rstd * avg(r * x, "n")),
        "apart": lambda rstd, g, h: rstd * g - h * (rstd * avg(h * g, "n")),
        "times n": lambda rstd, g, h: rstd / extent("n") * (g * extent("n") - h * total(h * g, "n")),
    },
    "terms": {"rstd last": lambda x, dy, rstd: dy * x * rstd},
}
"""Algorithms with the same factors in other orders."""


def along(rows: Any, scene: Any, stream: Any) -> Any:
    """Gradients dy for which dy times the weight is proportional to x rstd, so that dx cancels except for rounding
    errors and eps."""
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
    algorithms=ALGORITHMS,
    summary="gradients of rms_norm by x and weight",
)
