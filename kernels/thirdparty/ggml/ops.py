"""Ops of ggml's that are no kernel elsewhere."""

from __future__ import annotations

from fuzz import Op, Operand, Parameter
from fuzz import formula as f

__all__ = ["OPS"]

_FACTOR = Parameter("factor", (1.0, 0.5, -2.0, 0.0, 3.0, 1e-3, 1e4))
_ROW = "... n"


def dot(a: f.Node, b: f.Node) -> f.Outputs:
    """y = sum(a b); 0 of no elements."""
    return {"y": f.dot(a, b, "n")}


def scaled(x: f.Node, *, factor: f.Node) -> f.Outputs:
    """y = x factor."""
    return {"y": x * factor}


def scaled_add(x: f.Node, z: f.Node, *, factor: f.Node) -> f.Outputs:
    """y = z + x factor."""
    return {"y": z + x * factor}


OPS = (
    Op(dot, inputs=(Operand("a", _ROW), Operand("b", _ROW)), outputs=(Operand("y", "...", dtype="f32"),)),
    Op(scaled, inputs=(Operand("x", _ROW),), outputs=(Operand("y", _ROW),), parameters=(_FACTOR,)),
    Op(
        scaled_add, inputs=(Operand("x", _ROW), Operand("z", _ROW)), outputs=(Operand("y", _ROW),),
        parameters=(_FACTOR,),
    ),
)  # fmt: skip
