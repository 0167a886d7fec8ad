"""Products of matrices, also scaled, in groups, and with one of them as integers; and causal convolutions."""

from __future__ import annotations

import math
from typing import Any

from oracles.formula.trace import (
    Node,
    Outputs,
    dot,
    exp,
    extent,
    floor,
    greatest,
    point,
    position,
    sigmoid,
    take,
    total,
    where,
)
from oracles.op import Op
from oracles.operand import CODES, ENDS, Flip, Operand, Parameter


def matmul(a: Node, b: Node, bias: Node | None = None, *, relu: Node | float = 0.0) -> Outputs:
    """c = a b + bias. With relu = 1 results that are not positive are 0, but NaN stays. If k = 0, a b is 0."""
    product = dot(point(a), point(b), "k")
    z = product if bias is None else product + bias
    return {"c": where((z <= 0.0) & (relu >= 0.5), 0.0, z)}


MATMUL = Op(
    matmul,
    inputs=(Operand("a", "... m k"), Operand("b", "... k n"), Operand("bias", "n", optional=True)),
    outputs=(Operand("c", "... m n"),),
    parameters=(Parameter("relu", (0.0, 1.0), neutral=0.0, least=0.0),),
    flips=(Flip(("a", "b"), ()),),
    scaling={"a": 1, "bias": 1, "c": 1},
    shapes=(
        {"k": 64, "n": 64}, {"k": 128, "n": 128}, {"k": 256, "n": 96}, {"m": 1, "k": 1024}, {"m": 1, "n": 768},
        {"k": 80, "n": 77}, {"m": 77, "k": 64},
    ),
    summary="products of matrices, with a bias, and negative ones as zeros",
)  # fmt: skip


def scaled_matmul(scale_a: Node, a: Node, b: Node, scale_b: Node, bias: Node | None = None) -> Outputs:
    """c = (a b) scale_a scale_b + bias. The sums are whole numbers, which kernels add as integers."""
    count = dot(a, b, "k")
    scaled = count * scale_a * scale_b
    return {"c": scaled if bias is None else scaled + bias}


def like_a(scene: Any, stream: Any) -> Any:
    """numbers of the other matrix, so that both may have large ones alone"""
    others, shape = scene.values["a"].ravel(), scene.shape("b")
    which = stream.child("which").integers(math.prod(shape), 0, max(others.size, 1) - 1)
    return others[which].reshape(shape) if others.size else which.reshape(shape) * 0.0


SCALED_MATMUL = Op(
    scaled_matmul,
    inputs=(
        Operand("scale_a", "m"), Operand("a", "m k", dtype="int8", values=CODES),
        Operand("b", "k n", dtype="int8", values=f"{CODES} like_a"), Operand("scale_b", "n"),
        Operand("bias", "n", optional=True),
    ),
    outputs=(Operand("c", "m n"),),
    algorithms={"scaled": {
        "column first": lambda count, scale_a, scale_b: count * scale_b * scale_a,
        "scales first": lambda count, scale_a, scale_b: count * (scale_a * scale_b),
    }},
    recipes={"like_a": like_a}, flips=(Flip(("scale_a", "bias"), ("c",), zeros=True),),
    scaling={"scale_a": 1, "bias": 1, "c": 1},
    shapes=(
        {"k": 64, "n": 64}, {"k": 128, "n": 96}, {"m": 1, "k": 4096}, {"k": 2048, "n": 8}, {"m": 77, "k": 80},
        {"k": 1030},
    ),
    summary="products of matrices of int8, times scales of rows and columns, with a bias",
)  # fmt: skip


GROUPS = ("g", "k")
"""A row has g groups of k elements, each with a scale."""


def dequantize_matmul(x: Node, q: Node, scale: Node) -> Outputs:
    """c = x w, w = q scale, with a scale for each group of a row of q. w may be rounded before it is multiplied."""
    w = q * scale
    c = dot(point(x), point(w), GROUPS)
    return {"c": c}


DEQUANTIZE_MATMUL = Op(
    dequantize_matmul,
    inputs=(
        Operand("x", "m g k"), Operand("q", "n g k", dtype="int8", values=CODES),
        Operand("scale", "n g", values="factor", dtype="f32"),
    ),
    outputs=(Operand("c", "m n"),),
    algorithms={"c": {"by groups": lambda x, q, scale: total(dot(x, q, "k") * scale, "g")}},
    flips=(Flip(("x",), ("c",), zeros=True),), scaling={"x": 1, "c": 1},
    shapes=({"m": 1, "g": 8, "k": 32}, {"g": 4, "k": 64}, {"g": 2, "k": 128}, {"g": 1, "k": 1024}),
    summary="products with a matrix of int8, groups of which have scales of their own",
)  # fmt: skip


PAIRS = ("g", "h", "j")
"""A row has g groups of h pairs of elements: a byte has the first of a pair in its low 4 bits."""
MIDDLE = 8.0
"""The code that means 0 if no zero point is given, so that codes from 0 to 15 mean -8 to 7."""


def int4_matmul(x: Node, q: Node, scale: Node, zero_point: Node | None = None) -> Outputs:
    """c = x w, w = (code - zero point) scale. Each group of a row has a scale and a zero point, which is 8 if not
    given. Codes are 0 to 15: byte h of a group holds those of elements 2 h and 2 h + 1 in its low and high 4 bits. w
    may be rounded before it is multiplied."""
    # Plus half a code, so that no quotient lies at a step: dividing and shifting give the same code.
    above = floor((q + 0.5) / 16.0)
    low = q - 16.0 * above
    high = where(above < 0.0, above + 16.0, above)
    code = where(position("j", 2.0) == 0.0, low, high)
    offset = code - (MIDDLE if zero_point is None else zero_point)
    pair = take(x, 2.0 * position("h", extent("k") / 2.0) + position("j", 2.0), "k")
    w = offset * scale
    c = dot(point(pair), point(w), PAIRS)
    return {"c": c}


def nibbles(scene: Any, stream: Any) -> Any:
    """numbers from 0 to 15, as codes are"""
    shape = scene.shape("zero_point")
    return stream.child("nibble").integers(math.prod(shape), 0, 15).reshape(shape) * 1.0


INT4_MATMUL = Op(
    int4_matmul,
    inputs=(
        Operand("x", "m g k"), Operand("q", "n g h", dtype="int8", values=CODES),
        Operand("scale", "n g", values="factor", dtype="f32"),
        Operand("zero_point", "n g", optional=True, dtype="int8", values=f"{CODES} nibbles"),
    ),
    outputs=(Operand("c", "m n"),),
    algorithms={"c": {"by groups": lambda pair, offset, scale: total(dot(pair, offset, ("h", "j")) * scale, "g")}},
    shapes=({"m": 1, "g": 8, "k": 32}, {"g": 4, "k": 64}, {"g": 2, "k": 128}, {"g": 1, "k": 1024}),
    recipes={"nibbles": nibbles},
    summary="products with a matrix of 4-bit codes, groups of which have scales and zero points",
)  # fmt: skip


def grouped_matmul(a: Node, b: Node, offs: Node, collected: Node | None = None) -> Outputs:
    """c[g] = collected[g] + the sum of a[m, k] b[k, n] over the terms k of group g, which are offs[g - 1] (0 for the
    first group) to offs[g] - 1. A group without terms has a sum of 0. A NaN in one group changes no other group, and
    terms from the last end on belong to no group."""
    first = take(offs, position("g") - 1.0, "g", 0.0)
    own = (first <= position("k")) & (position("k") < offs)
    left, right = where(own, a, 0.0), where(own, b, 0.0)
    product = dot(point(left), point(right), "k")
    return {"c": product if collected is None else collected + product}


GROUPED_MATMUL = Op(
    grouped_matmul,
    inputs=(
        Operand("a", "m k"), Operand("b", "k n"), Operand("offs", "g", dtype="int32", index="k", values=ENDS),
        Operand("collected", "g m n", optional=True),
    ),
    outputs=(Operand("c", "g m n"),), aliases=(("c", "collected"),),
    flips=(Flip(("a", "collected"), ("c",), zeros=True),), scaling={"a": 1, "collected": 1, "c": 1},
    shapes=({"g": 8, "m": 4}, {"g": 4, "k": 128}, {"g": 2, "m": 17, "n": 33}, {"g": 3, "m": 1, "k": 65}),
    summary="products of matrices, one for each group of terms; a group may have none",
)  # fmt: skip


def grouped_rows_matmul(a: Node, b: Node, offs: Node, bias: Node | None = None) -> Outputs:
    """c[m, n] = the sum of a[m, k] b[g, k, n] over k, plus bias[g, n], where g is the group of row m: the first with
    offs[g] > m. A group whose end is not after the previous end has no rows. Rows from the last end on belong to no
    group, and are 0."""
    # The number of groups that end before a row, by a maximum, which is exact; a sum of flags may round.
    group = greatest(where(offs <= position("m"), position("g") + 1.0, 0.0), "g")
    left = where(position("m") < greatest(offs, "g"), a, 0.0)
    product = dot(point(left), take(b, group, "g", 0.0), "k")
    return {"c": product if bias is None else product + take(bias, group, "g", 0.0)}


GROUPED_ROWS_MATMUL = Op(
    grouped_rows_matmul,
    inputs=(
        Operand("a", "m k"), Operand("b", "g k n"), Operand("offs", "g", dtype="int32", index="m", values=ENDS),
        Operand("bias", "g n", optional=True),
    ),
    outputs=(Operand("c", "m n"),),
    flips=(Flip(("a", "bias"), ("c",), zeros=True),), scaling={"a": 1, "bias": 1, "c": 1},
    shapes=({"g": 8, "k": 4}, {"g": 4, "m": 128}, {"g": 2, "k": 17, "n": 33}, {"g": 3, "n": 1, "m": 65}),
    summary="rows times the matrix of their group; a group may have none",
)  # fmt: skip


def conv1d(x: Node, weight: Node, bias: Node | None = None, *, silu: Node | float = 0.0) -> Outputs:
    """z(i) = bias + sum over k of weight(k) x(i + k - (taps - 1)), where x is 0 before place 0. y = z, or z sigmoid(z)
    with silu = 1."""
    taps = take(x, position("n") + position("k") - (extent("k") - 1.0), "n", 0.0)
    mixed = dot(taps, weight, "k")
    z = mixed if bias is None else mixed + bias
    gate = sigmoid(z)
    return {"y": where(silu >= 0.5, z * gate, z)}


CONV1D = Op(
    conv1d,
    inputs=(Operand("x", "... c n"), Operand("weight", "c k"), Operand("bias", "c", optional=True)),
    outputs=(Operand("y", "... c n"),),
    parameters=(Parameter("silu", (0.0, 1.0), neutral=0.0, least=0.0),),
    algorithms={"gate": {"quotient": lambda z: 1.0 / (1.0 + exp(-z))}},
    least={"k": 1},
    shapes=({"k": 4}, {"k": 4, "c": 64}, {"k": 3}, {"k": 2, "c": 96}),
    summary="causal convolutions of each channel, with a bias, and silu of them",
)  # fmt: skip
