"""Torch's products of matrices, and attention written out as its definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fuzz.references.dims import UnreadableError, extent
from fuzz.references.elementwise import opposite, rule
from fuzz.references.lines import of_dims, template
from fuzz.references.maps import as_axis, copied, with_axis
from fuzz.references.reading import Reader
from fuzz.references.recording import Two
from fuzz.references.reductions import softmax
from fuzz.references.scope import Number, Value
from oracles.formula.node import Node


def product(reader: Reader, a: Value, b: Value, hint: str = "product") -> Value:
    """Return the matrix product of a and b, summed over the last axis of a and the last but one of b."""
    inner, columns = a.axes[-1], b.axes[-1]
    if extent(b.axes[-2]) != extent(inner):
        raise UnreadableError("multiplies matrices along two dimensions: give them one name in `shapes`")
    if {*columns} & (own := {dim for axis in a.axes for dim in axis}):  # such as a column for each row
        b = copied(reader, b, -1, own)
    if len(b.axes[-2]) > len(inner) and {*b.axes[-2]}.isdisjoint(dim for axis in a.axes[:-1] for dim in axis):
        a = as_axis(reader, a, -1, b.axes[-2])
    b = as_axis(reader, b, -2, a.axes[-1])
    inner = a.axes[-1]
    a, b = reader.alike((a, b), range(-max(a.rank, b.rank), -2))  # such as heads, and keys' heads times copies
    batch = reader.aligned([replace(each, axes=each.axes[:-2]) for each in (a, b)])
    wide = replace(a, axes=(*a.axes[:-1], (), inner))
    other = replace(b, axes=(*b.axes[:-2], (), b.axes[-1], inner))
    found = reader.reduced("dot", hint, wide, -1, False, other)
    return replace(found, axes=(*batch, a.axes[-2], b.axes[-1]))


@rule("mm", "bmm", "matmul")
def _mm(reader: Reader, self: Value, other: Any = None, **given: Any) -> Value:
    return product(reader, self, given.get("mat2", other))


@rule("mv")
def _mv(reader: Reader, self: Value, vec: Value) -> Value:
    vec = as_axis(reader, vec, -1, self.axes[-1])
    return reader.reduced("dot", "product", self, -1, False, replace(vec, axes=((), *vec.axes)))


_ADDED: Mapping[str, Callable[[Reader, Value, Value], Value]] = {
    "addmm": product,
    "baddbmm": product,
    "addmv": _mv,
    "addr": lambda reader, a, b: reader.each("a * b", "product", a=replace(a, axes=(*a.axes, ())), b=b),
    "addbmm": lambda reader, a, b: reader.reduced("total", "product", product(reader, a, b), 0, False),
}
"""The products of two tensors to which torch adds a third one."""


@rule(*_ADDED)
def _added(reader: Reader, self: Value, beta: Number, alpha: Number, **given: Any) -> Value:
    a, b = (each for each in given.values() if isinstance(each, Value))
    made = _ADDED[reader.step.op.removesuffix("_")](reader, a, b)
    return reader.each("alpha * product + beta * x", "t", product=made, x=self, alpha=alpha, beta=beta)


@rule("dot", "vdot")
def _dot(reader: Reader, self: Value, **given: Any) -> Value:
    [other] = given.values()
    other = as_axis(reader, other, -1, self.axes[-1])
    return reader.reduced("dot", "product", self, -1, False, other)


@rule(
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math", "scaled_dot_product_attention"
)
def _attention(
    reader: Reader, query: Value, key: Value, value: Value, is_causal: bool = False, scale: Any = None,
    dropout_p: float = 0.0, attn_mask: Any = None, **_: object,
) -> Any:  # fmt: skip
    if dropout_p:
        raise UnreadableError("leaves some out by chance")
    key, value = (_repeated(reader, each, query) for each in (key, value))
    p = softmax(reader, scored(reader, query, key, is_causal=is_causal, scale=scale, mask=attn_mask), -1)
    found = product(reader, p, value, "attention")
    # The second result only serves gradients, which have a formula of their own.
    return (found, reader.each("x", x=query)) if len(reader.step.shapes) > 1 else found


def _repeated(reader: Reader, value: Value, query: Value) -> Value:
    """Return keys or values for each head of queries, of which there are a multiple, as with `enable_gqa`."""
    if value.rank < 4 or query.rank < 4 or not query.axes[-3]:
        return value
    few, many = extent(value.axes[-3]), extent(query.axes[-3])
    times = many[0] // few[0]
    if times < 2 or (times * few[0], times * few[1]) != many:
        return value
    group = reader.sizes.new(Node("constant", value=float(times)), "group")
    return with_axis(value, -3, (*value.axes[-3], group))


def scored(reader: Reader, query: Value, key: Value, *, is_causal: bool, scale: Any, mask: Any) -> Value:
    """Return the scores of attention, before the softmax."""
    scores = product(reader, query, replace(key, axes=(*key.axes[:-2], key.axes[-1], key.axes[-2])), "scores")
    scores = scaled(reader, scores, query, scale)
    if is_causal:
        later = reader.mask(below(reader, scores, 0))
        made = reader.add("f.where(mask, x, -float('inf'))", "scores", mask=later, x=scores)
        scores = replace(scores, expression=made)
    if isinstance(mask, Value) and mask.dtype == "torch.bool":
        made = reader.add("f.where(mask, x, -float('inf'))", "scores", mask=reader.mask(mask), x=scores)
        scores = replace(scores, expression=made, has=scores.has | mask.has)
    elif isinstance(mask, Value):
        scores = reader.each("x + mask", "scores", x=scores, mask=mask)
    return scores


def scaled(reader: Reader, scores: Value, query: Value, scale: Any) -> Value:
    """Return scores times `scale`, by default divided by the root of the number of elements of a query."""
    if scale is not None:
        return reader.each("x * scale", "scores", x=scores, scale=scale)
    [dim] = query.axes[-1]
    same = dim.sizes[0] == dim.sizes[1]
    root = math.sqrt(dim.sizes[0]) if same else Two(*(math.sqrt(size) for size in dim.sizes))
    return reader.each("x / root", "scores", x=scores, root=root)


def below(reader: Reader, like: Value, diagonal: Number, *, strictly: bool = False) -> Value:
    """Return the condition that elements of the last two axes lie on or below a diagonal, or only `strictly` below it.
    Diagonals are numbered from the main one, 0."""
    row, column = like.axes[-2:]
    if len(row) != 1 or len(column) != 1:
        raise UnreadableError("takes a triangle of what has no two dimensions")
    parts = {"j": of_dims(column), "i": of_dims(row)}
    if isinstance(diagonal, Two):
        text = f"f.position(j) {'<' if strictly else '<='} f.position(i) + d"
        made = template(text, **parts, d=reader.number(diagonal))
    else:
        by = diagonal - strictly
        text = "f.position(j) <= f.position(i) + d" if by else "f.position(j) <= f.position(i)"
        made = template(text, **parts, d=reader.number(by))
    has = frozenset((row[0], column[0]))
    return Value(None, (row, column), has, "torch.bool", condition=reader.lines.add(made, "mask"))


@rule("tril", "triu")
def _triangle(reader: Reader, self: Value, diagonal: Number = 0) -> Value:
    is_lower = reader.step.op == "tril"
    inside = below(reader, self, diagonal, strictly=not is_lower)
    inside = inside if is_lower else opposite(reader, inside)  # on or above: not strictly below
    ones = self.expression is not None and not self.has and getattr(self.expression, "value", None) == 1.0
    if ones or self.dtype == "torch.bool":
        condition = inside.condition if ones else None
        if condition is None:
            condition = reader.add("a & b", "mask", a=reader.mask(self), b=reader.mask(inside))
        return Value(None, self.axes, self.has | inside.has, self.dtype, condition=condition)
    made = reader.add("f.where(mask, x, 0.0)", "triangle", mask=reader.mask(inside), x=self)
    return replace(self, expression=made, condition=None, has=self.has | inside.has)
