"""Ops of ggml's that are no kernel elsewhere."""

from __future__ import annotations

from dataclasses import replace

from fuzz import Op, Operand, Parameter
from fuzz import formula as f

__all__ = ["OPS"]

_FACTOR = Parameter("factor", (1.0, 0.5, -2.0, 0.0, 3.0))
_NO_HALF = Parameter("factor", (1e-3, 1e5, -1.0001))
"""What is no number of f16."""
_ROW = "... n"


def dot(a: f.Node, b: f.Node) -> f.Outputs:
    """y = sum(a b); 0 of no elements."""
    return {"y": f.dot(a, b, "n")}


def scaled(x: f.Node, *, factor: f.Node) -> f.Outputs:
    """y = x factor."""
    return {"y": x * factor}


def scaled_widely(x: f.Node, *, factor: f.Node) -> f.Outputs:
    """y = x factor, which has more digits than f16, or is larger."""
    return {"y": x * factor}


def q8_0(x: f.Node) -> f.Outputs:
    """scale = max(abs(x)) / 127, which is stored as f16; q = x over that as it was, rounded, and 0 where it is 0."""
    most = f.greatest(abs(x), "n")
    step = most / 127.0
    scale = f.point(step)
    ratio = x * (127.0 / most)
    return {"q": f.where(scale == 0.0, 0.0, f.round(ratio)), "scale": scale}


def q8_k(x: f.Node) -> f.Outputs:
    """y = q step, step = max(abs(x)) / 127; q = x over that, rounded."""
    most = f.greatest(abs(x), "n")
    step = most / 127.0
    return {"y": f.where(most == 0.0, 0.0, f.round(x * (127.0 / most)) * step)}


def scaled_add(x: f.Node, z: f.Node, *, factor: f.Node) -> f.Outputs:
    """y = z + x factor."""
    return {"y": z + x * factor}


def code(raw: f.Node, bits: f.Node) -> f.Node:
    """The last bits of what is drawn, as a number from 0."""
    levels = f.where(bits < 4.5, 16.0, f.where(bits < 5.5, 32.0, 256.0))
    above = raw + 128.0
    return above - levels * f.floor((above + 0.5) / levels)


def block_dot(scale_a: f.Node, a: f.Node, scale_b: f.Node, b: f.Node, *, bits: f.Node) -> f.Outputs:
    """y = sum(scale_a scale_b sum(a b)) over blocks of 32 codes: those of b have 8 bits, those of a have `bits`, and
    none of 8 bits is -128."""
    half = f.where(bits < 4.5, 8.0, f.where(bits < 5.5, 16.0, 128.0))
    left = _above_least(code(a, bits) - half)
    count = f.dot(left, _above_least(b), "k")
    return {"y": f.total(count * (scale_a * scale_b), "g")}


def block_dot_above(
    scale_a: f.Node, a: f.Node, least: f.Node, scale_b: f.Node, b: f.Node, *, bits: f.Node
) -> f.Outputs:
    """y = sum(scale_a scale_b sum(a b) + least s) over blocks of 32, s = scale_b sum(b), which is stored as f16."""
    right = _above_least(b)
    count = f.dot(code(a, bits), right, "k")
    s = scale_b * f.total(right, "k")
    return {"y": f.total(count * (scale_a * scale_b) + least * f.point(s), "g")}


def super_block_dot(
    d: f.Node, scale: f.Node, a: f.Node, least: f.Node, step: f.Node, scale_b: f.Node, b: f.Node, *, bits: f.Node
) -> f.Outputs:
    """y = sum(d scale_b sum(scale sum(a b)) - least scale_b sum(step sum(b))) over blocks of 256 codes in 8 groups; the
    scale and the step of a group have 6 bits, the codes of b 8."""
    right = _above_least(b)
    count = f.total(_six(scale) * f.dot(code(a, bits), right, "k"), "s")
    under = f.total(_six(step) * f.total(right, "k"), "s")
    return {"y": f.total(count * (d * scale_b) - under * (least * scale_b), "g")}


def super_block_dot_six(d: f.Node, scale: f.Node, a: f.Node, scale_b: f.Node, b: f.Node) -> f.Outputs:
    """y = sum(d scale_b sum(scale sum(a b))) over blocks of 256 codes of 6 bits in 16 groups."""
    count = f.total(scale * f.dot(_six(a) - 32.0, _above_least(b), "k"), "s")
    return {"y": f.total(count * (d * scale_b), "g")}


def super_block(d: f.Node, scale: f.Node, a: f.Node, least: f.Node, step: f.Node, *, bits: f.Node) -> f.Outputs:
    """y = d scale a - least step, of blocks of 256 codes in 8 groups, whose scale and step have 6 bits."""
    return {"y": code(a, bits) * (d * _six(scale)) - least * _six(step)}


def super_block_six(d: f.Node, scale: f.Node, a: f.Node) -> f.Outputs:
    """y = d scale a, of blocks of 256 codes of 6 bits in 16 groups."""
    return {"y": (_six(a) - 32.0) * (d * scale)}


def _six(raw: f.Node) -> f.Node:
    above = raw + 128.0
    return above - 64.0 * f.floor((above + 0.5) / 64.0)


def _above_least(number: f.Node) -> f.Node:
    return f.where(number < -127.0, -127.0, number)


def _codes(name: str) -> Operand:
    return Operand(name, "... g k", dtype="int8", values="codes")


def _scales(name: str) -> Operand:
    return Operand(name, "... g", values="finite_factor", dtype="f16")


def _parts(name: str) -> Operand:
    return Operand(name, "... g s", dtype="int8", values="codes")


def _of_part(name: str) -> Operand:
    return Operand(name, "... g s k", dtype="int8", values="codes")


_OF_BLOCKS = (Operand("y", "...", dtype="f32"),)
_OF_CODES = (Operand("y", "... g s k", dtype="f32"),)
_FOUR_OR_FIVE = Parameter("bits", (4.0, 5.0), least=4.0)
OPS = (
    Op(
        block_dot, inputs=(_scales("scale_a"), _codes("a"), _scales("scale_b"), _codes("b")), outputs=_OF_BLOCKS,
        parameters=(Parameter("bits", (4.0, 5.0, 8.0), least=4.0),), fixed={"k": 32},
    ),
    Op(
        block_dot_above,
        inputs=(_scales("scale_a"), _codes("a"), _scales("least"), _scales("scale_b"), _codes("b")),
        outputs=_OF_BLOCKS, parameters=(_FOUR_OR_FIVE,), fixed={"k": 32},
    ),
    Op(
        super_block_dot,
        inputs=(
            _scales("d"), _parts("scale"), _of_part("a"), _scales("least"), _parts("step"),
            replace(_scales("scale_b"), dtype="f32"), _of_part("b"),
        ),
        outputs=_OF_BLOCKS, parameters=(_FOUR_OR_FIVE,), fixed={"s": 8, "k": 32},
    ),
    Op(
        super_block_dot_six,
        inputs=(
            _scales("d"), _parts("scale"), _of_part("a"), replace(_scales("scale_b"), dtype="f32"), _of_part("b"),
        ),
        outputs=_OF_BLOCKS, fixed={"s": 16, "k": 16},
    ),
    Op(
        super_block, inputs=(_scales("d"), _parts("scale"), _of_part("a"), _scales("least"), _parts("step")),
        outputs=_OF_CODES, parameters=(_FOUR_OR_FIVE,), fixed={"s": 8, "k": 32},
    ),
    Op(
        super_block_six, inputs=(_scales("d"), _parts("scale"), _of_part("a")), outputs=_OF_CODES,
        fixed={"s": 16, "k": 16},
    ),
    Op(
        q8_k, inputs=(Operand("x", _ROW, values="coded"),), outputs=(Operand("y", _ROW),), fixed={"n": 256},
    ),
    Op(dot, inputs=(Operand("a", _ROW), Operand("b", _ROW)), outputs=(Operand("y", "...", dtype="f32"),)),
    Op(scaled, inputs=(Operand("x", _ROW),), outputs=(Operand("y", _ROW),), parameters=(_FACTOR,)),
    Op(scaled_widely, inputs=(Operand("x", _ROW),), outputs=(Operand("y", _ROW),), parameters=(_NO_HALF,)),
    Op(
        q8_0, inputs=(Operand("x", _ROW, values="coded"),),
        outputs=(Operand("q", _ROW, dtype="int8"), Operand("scale", "...", dtype="f16")), fixed={"n": 32},
    ),
    Op(
        scaled_add, inputs=(Operand("x", _ROW), Operand("z", _ROW)), outputs=(Operand("y", _ROW),),
        parameters=(_FACTOR,),
    ),
)  # fmt: skip
