"""Torch's operations for gradients of convolutions, pools, attention, norms, and losses by labels. Other gradients
consist of ordinary operations and need no rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fuzz.references.dims import Axis, Dim, UnreadableError
from fuzz.references.elementwise import rule
from fuzz.references.lines import template
from fuzz.references.maps import as_axis, single, split
from fuzz.references.moves import counting
from fuzz.references.products import product, scaled, scored
from fuzz.references.reading import Reader
from fuzz.references.recording import Two
from fuzz.references.reductions import normal, softmax
from fuzz.references.scatter import counted_into, is_place
from fuzz.references.scope import Value
from fuzz.references.windows import Window, apart, containing, convolved, each_of, over_windows, slid, windows_of
from oracles.formula.node import Node


@rule("convolution_backward")
def _of_convolution(
    reader: Reader, grad_output: Value, input: Value, weight: Value, stride: Any, padding: Any, dilation: Any,  # noqa: A002
    transposed: bool, groups: int | Two, output_mask: Sequence[bool], **_: object,
) -> Any:  # fmt: skip
    by_input, by_weight, by_bias = output_mask
    whole: Value | None = None
    dy, x = grad_output, input
    if transposed:  # such a convolution is itself the gradient by an input
        given = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": 0, "groups": groups}
        whole = convolved(reader, dy, weight, None, transposed=False, **given) if by_input else None
        dy, x = x, dy
    count = weight.rank - 2
    steps = windows_of(reader, count, stride, padding, dilation)
    dy, x, w = split(reader, dy, 1, groups), split(reader, x, 1, groups), split(reader, weight, 0, groups)
    dy = as_axis(reader, as_axis(reader, dy, 1, w.axes[0]), 2, w.axes[1])
    x = as_axis(reader, as_axis(reader, x, 1, w.axes[0]), 2, w.axes[2])
    windows = list[Axis]()
    for at in range(3, 3 + count):
        w, own = apart(reader, w, at, replace(x, axes=(*x.axes, *dy.axes)))
        windows.append(own)
    return (
        _by_input(reader, dy, x, w, windows, steps) if by_input and not transposed else whole,
        _by_weight(reader, dy, x, w, windows, steps) if by_weight else None,
        reader.reduced("total", "sums", grad_output, [0, *range(2, 2 + count)], False) if by_bias else None,
    )


def _by_input(reader: Reader, dy: Value, x: Value, w: Value, windows: Sequence[Axis], steps: Sequence[Window]) -> Value:
    """Return the gradient by the input: each element of the input is in all windows at distances of whole steps."""
    for at, (window, how) in enumerate(zip(windows, steps, strict=True), 3):
        dy, out = single(reader, dy, at)
        _, place = single(reader, x, at)
        dy = containing(reader, dy, at, out, (place,), window, how)
    axes = (dy.axes[0], (*w.axes[0], *w.axes[2]), *dy.axes[3:])
    terms = replace(dy, axes=(w.axes[1], *windows))
    return replace(reader.reduced("dot", "by_input", terms, None, False, w), axes=axes)


def _by_weight(
    reader: Reader, dy: Value, x: Value, w: Value, windows: Sequence[Axis], steps: Sequence[Window]
) -> Value:
    for at, (window, how) in enumerate(zip(windows, steps, strict=True), 3):
        x = slid(reader, x, at, window, how)
        x = as_axis(reader, x, at, dy.axes[at])
    terms = replace(x, axes=(x.axes[0], *x.axes[3:]))
    found = reader.reduced("dot", "by_weight", terms, None, False, dy)
    return replace(found, axes=((*w.axes[0], *w.axes[1]), w.axes[2], *windows))


@rule("avg_pool2d_backward", "avg_pool3d_backward")
def _of_mean_pool(
    reader: Reader, grad_output: Value, self: Value, kernel_size: Any, stride: Any, padding: Any,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    """Return the gradient of a mean pool: each element gets an equal share of the windows that contain it."""
    count = 2 if "2d" in reader.step.op else 3
    sizes, before = each_of(kernel_size, count), each_of(padding, count)
    if ceil_mode or (any(before) and not count_include_pad):
        raise UnreadableError("takes the mean of what lies inside: write it out")
    dy, windows = grad_output, list[Dim]()
    for at, (size, step, pad) in enumerate(zip(sizes, each_of(stride or sizes, count), before, strict=True)):
        at += self.rank - count
        if (size, step, pad) == (1, 1, 0):
            continue
        dy, out = single(reader, dy, at)
        _, place = single(reader, self, at)
        window = reader.sizes.new(Node("constant", value=float(size)), f"{place.name}_window")
        dy = containing(reader, dy, at, out, (place,), (window,), Window(step, reader.amount(pad)))
        windows.append(window)
    found = over_windows(reader, dy, "total", windows)
    return reader.each("x / n", "pool", x=found, n=divisor_override or math.prod(sizes))


@rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def _of_attention(
    reader: Reader, grad_out: Value, query: Value, key: Value, value: Value, out: Value, is_causal: bool,
    scale: Any = None, attn_mask: Any = None, **_: object,
) -> Any:  # fmt: skip
    scores = scored(reader, query, key, is_causal=is_causal, scale=scale, mask=attn_mask)
    p = softmax(reader, scores, -1)
    most = reader.reduced("greatest", "most", scores, -1, True)
    mass = reader.reduced("total", "mass", reader.each("f.exp(x - most)", "e", x=scores, most=most), -1, True)
    # A kernel that kept only the logarithm of the sum has errors in proportion to that logarithm.
    p = reader.ways(p, {"by_lse": "f.exp(x - (f.log(mass) + most))"}, x=scores, mass=mass, most=most)
    dp = product(reader, grad_out, _turned(value), "dp")
    delta = reader.reduced("dot", "delta", grad_out, -1, True, out)
    ds = reader.each("p * (dp - delta)", "ds", p=p, dp=dp, delta=delta)
    dq, dk = (product(reader, a, b, hint) for a, b, hint in ((ds, key, "dq"), (_turned(ds), query, "dk")))
    dv = product(reader, _turned(p), grad_out, "dv")
    return *(scaled(reader, each, query, scale) for each in (dq, dk)), dv


@rule("native_layer_norm_backward")
def _of_layer_norm(
    reader: Reader, grad_out: Value, input: Value, normalized_shape: Sequence[Any], mean: Value, rstd: Value,  # noqa: A002
    weight: Value | None, output_mask: Sequence[bool], **_: object,
) -> Any:  # fmt: skip
    first = input.rank - len(normalized_shape)
    rows, dims = [*range(first)], [*range(first, input.rank)]
    h, g = normal(reader, input, mean, rstd), grad_out
    if weight is not None:
        g = reader.each("dy * w", "g", dy=grad_out, w=weight)
    gh, gx = reader.each("g * h", "t", g=g, h=h), reader.each("g * x", "t", g=g, x=input)
    ga, gb = (reader.reduced("avg", "mean", each, dims, True) for each in (g, gh))
    dx = reader.each("rstd * (g - a - h * b)", "dx", rstd=rstd, g=g, h=h, a=ga, b=gb)
    s, t = (reader.reduced("total", "total", each, dims, True) for each in (g, gx))
    slope = "(s * mean - t) * rstd * rstd * rstd / n"
    reader.ways(
        dx, {"linear": f"rstd * g + {slope} * x + (-({slope}) * mean - s * rstd / n)"},
        x=input, rstd=rstd, mean=mean, g=g, n=Value(reader.count(input, dims)), s=s, t=t,
    )  # fmt: skip
    dw = reader.each("dy * h", "t", dy=grad_out, h=h)
    summed = [reader.reduced("total", "sums", each, rows, False) if rows else each for each in (dw, grad_out)]
    return tuple(each if asked else None for each, asked in zip((dx, *summed), output_mask, strict=True))


def _turned(value: Value) -> Value:
    return replace(value, axes=(*value.axes[:-2], value.axes[-1], value.axes[-2]))


@rule("nll_loss_backward")
def _of_nll_loss(
    reader: Reader, grad_output: Value, self: Value, target: Value, weight: Any, reduction: int, ignore_index: int,
    **_: object,
) -> Value:  # fmt: skip
    if weight is not None:
        raise UnreadableError("weighs classes: write it out")
    [dim] = self.axes[-1] or [None]
    if dim is None:
        raise UnreadableError("takes places along one element")
    own, counts = reader.each("-g", "t", g=grad_output), counting(reader, target, ignore_index)
    if reduction == 1 and counts is not None:
        own = reader.each("a / b", "t", a=own, b=reader.reduced("total", "counts", counts, None, False))
    elif reduction == 1:
        own = reader.with_count("self / count", "t", own, reader.count(target, None))
    wide = replace(own, axes=(*own.axes, ())) if not reduction else own
    mask = is_place(reader, target, dim)
    if counts is not None:
        mask = template("a & b", a=mask, b=reader.mask(counts))
    made = reader.add("f.where(mask, g, 0.0)", "picked", mask=mask, g=wide)
    return Value(made, self.axes, wide.has | target.has | {dim}, self.dtype)


@rule("embedding_dense_backward")
def _of_embedding(
    reader: Reader, grad_output: Value, indices: Value, padding_idx: int, scale_grad_by_freq: bool, **_: object
) -> Value:
    if padding_idx >= 0 or scale_grad_by_freq:
        raise UnreadableError("leaves a row out, or counts rows: write it out")
    [rows, _width] = reader.shape()
    return counted_into(reader, grad_output, indices, [*range(indices.rank)], reader.dim(rows), 0)
