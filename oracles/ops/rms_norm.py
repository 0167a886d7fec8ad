"""Rows divided by their root mean square, also of the sum with a residual; and the gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from oracles.formula.trace import Node, Outputs, avg, extent, point, rsqrt, total, welford_mean, welford_squares
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


RMS_NORM = Op(
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


def fused_add_rms_norm(
    x: Node, residual: Node, weight: Node | None = None, *, eps: Node, weight_offset: Node | float = 0.0
) -> Outputs:
    """sum = x + residual, y = sum rstd (weight_offset + weight), rstd = 1/sqrt(mean(sum^2) + eps)."""
    added = x + residual
    return {**rms_norm(point(added), weight, eps=eps, weight_offset=weight_offset), "sum": added}


FUSED_ADD_RMS_NORM = Op(
    fused_add_rms_norm,
    inputs=(X, Operand("residual", "... n", values="addend"), WEIGHTS),
    outputs=(Operand("y", "... n"), Operand("sum", "... n", optional=True), RSTD),
    parameters=(EPS, WEIGHT_OFFSET),
    aliases=(("y", "x"), ("sum", "residual"), ("sum", "x"), ("y", "residual")),
    flips=(Flip(("x", "residual"), ("y", "sum"), zeros=True),),
    scaling={"x": 1, "residual": 1, "sum": 1, "rstd": -1},
    summary="x + residual, and its rows divided by their root mean square, times a weight",
)


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

RMS_NORM_BACKWARD = Op(
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


def fused_add_rms_norm_backward(
    x: Node,
    dy: Node,
    dsum: Node | None = None,
    weight: Node | None = None,
    rstd: Node | None = None,
    *,
    eps: Node,
    weight_offset: Node | float = 0.0,
) -> Outputs:
    """dx and dw are those of `rms_norm` for x, the sum; dx also has dsum, the sum's own gradient; dresidual is dx."""
    dx, dw = gradients(x, dy, weight, root(x, eps) if rstd is None else rstd, weight_offset)
    dsummed = dx if dsum is None else dx + dsum
    dresidual = point(dsummed)
    return {"dx": dresidual, "dresidual": dresidual, "dw": point(dw)}


FUSED_ADD_RMS_NORM_BACKWARD = Op(
    fused_add_rms_norm_backward,
    inputs=(X, DY_ALONG, Operand("dsum", "... n", optional=True, values="gradient along"), WEIGHT, GIVEN_RSTD),
    outputs=(DX, Operand("dresidual", "... n", optional=True), DW),
    parameters=(EPS, WEIGHT_OFFSET),
    aliases=(("dx", "dy"), ("dx", "dsum"), ("dresidual", "dsum"), ("dresidual", "dy")),
    flips=(Flip(("x",), ("dw",), zeros=True), Flip(("dy", "dsum"), ("dx", "dresidual", "dw"), zeros=True)),
    scaling={"x": 1, "rstd": -1, "dsum": -1, "dx": -1, "dresidual": -1},
    recipes=ALONG,
    algorithms=ALGORITHMS,
    summary="gradients of fused_add_rms_norm by x, residual and weight",
)
