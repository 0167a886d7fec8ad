"""What operators of ONNX do that round nothing: functions of torch, whose parameters are inputs, then attributes. And
the one that resizes, written as its text says: each axis is multiplied by a matrix of weights."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import torch
from torch.nn import functional

Function = Callable[..., Any]


def integers(values: Any) -> list[int]:
    """Return an input or attribute as a list of integers; [] if it is missing."""
    found = values.flatten().tolist() if isinstance(values, torch.Tensor) else values
    return [int(each) for each in (found if found is not None else [])]


def every(x: Any, axes: Any) -> list[int]:
    """Return the axes that are given, counted from the front, or else all."""
    return [each % x.ndim for each in integers(axes)] or [*range(x.ndim)]


def along(x: Any, values: Any, axis: int = 1) -> Any:
    """Return values for each index of an axis with as many dimensions as a tensor; others as they are."""
    return values.reshape([-1] + [1] * (x.ndim - 1 - axis % x.ndim)) if values.ndim == 1 else values


def padded(x: Any, before: Sequence[int], after: Sequence[int], value: float = 0) -> Any:
    """Return a tensor with more elements, or fewer if negative, at both ends of its last dimensions."""
    pairs = [each for both in zip(reversed(before), reversed(after), strict=True) for each in both]
    return functional.pad(x, pairs, value=value)


def spread(
    x: Any, kernel: Sequence[int], strides: Any = None, dilations: Any = None, pads: Any = None,
    auto_pad: str = "NOTSET",
) -> tuple[list[int], list[int], list[int], list[int], list[int]]:  # fmt: skip
    """Return what convolutions and pools have for each axis: the stride, the dilation, the extent of a window, and the
    padding before and after."""
    count = len(kernel)
    strides, dilations = integers(strides) or [1] * count, integers(dilations) or [1] * count
    whole = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = integers(pads) or [0] * 2 * count
    if auto_pad.startswith("SAME"):
        both = [max((-(-n // s) - 1) * s + w - n, 0) for n, s, w in zip(x.shape[2:], strides, whole, strict=True)]
        less = [each // 2 for each in both]
        more = [each - half for each, half in zip(both, less, strict=True)]
        pads = less + more if auto_pad == "SAME_UPPER" else more + less
    return strides, dilations, whole, pads[:count], pads[count:]


def windows(
    x: Any, value: float, kernel_shape: Sequence[int], *, strides: Any = None, dilations: Any = None, pads: Any = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, beyond: float | None = None,
) -> Any:  # fmt: skip
    """Return the windows of a pool, each flat. Padding has a `value`, and what a last window has beyond it another."""
    strides, dilations, whole, before, after = spread(x, kernel_shape, strides, dilations, pads, auto_pad)
    x, more = padded(x, before, after, value), list[int]()
    for n, s, w, first, own in zip(x.shape[2:], strides, whole, before, after, strict=True):
        count = -(-(n - w) // s) if ceil_mode else (n - w) // s
        count -= count * s >= n - own  # a window starts in the input or the padding before it
        more.append(max(count * s + w - n, 0) if first >= 0 else 0)
    x = padded(x, [0] * len(more), more, value if beyond is None else beyond)
    for at, (s, w, d) in enumerate(zip(strides, whole, dilations, strict=True)):
        x = x.unfold(2 + at, w, s)[..., ::d]
    return x.flatten(2 + len(more))


def _max_pool(x: Any, *, kernel_shape: Sequence[int], storage_order: int = 0, **how: Any) -> Any:
    places = torch.arange(x.numel()).reshape(x.shape)
    if storage_order:
        outer = torch.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * (x.ndim - 2)) * prod(x.shape[2:])
        inner = torch.arange(prod(x.shape[2:])).reshape(x.shape[:1:-1]).permute(*range(x.ndim - 2)[::-1])
        places = outer + inner
    found, at = windows(x.double(), -torch.inf, kernel_shape, **how).max(-1, keepdim=True)
    return found[..., 0], windows(places.double(), -1.0, kernel_shape, **how).gather(-1, at)[..., 0].long()


def _max_unpool(
    x: Any, places: Any, shape: Any = None, *, kernel_shape: Any, strides: Any = None, pads: Any = None
) -> Any:
    strides, _, whole, before, after = spread(x, kernel_shape, strides, None, pads)
    sizes = [(n - 1) * s + w for n, s, w in zip(x.shape[2:], strides, whole, strict=True)]
    own = [*x.shape[:2], *(n - b - a for n, b, a in zip(sizes, before, after, strict=True))]
    found = torch.zeros(prod(own), dtype=x.dtype).scatter(0, places.flatten(), x.flatten()).reshape(own)
    if shape is None:
        return found
    return padded(found, [0] * len(own), [n - m for n, m in zip(integers(shape), own, strict=True)])


def _slice(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    starts, ends = integers(starts), integers(ends)
    axes = integers(axes) or range(len(starts))
    for axis, first, end, step in zip(axes, starts, ends, integers(steps) or [1] * len(starts), strict=True):
        places = range(x.shape[axis])[slice(first, end if step > 0 or end >= -x.shape[axis] else None, step)]
        x = x.index_select(axis, torch.tensor([*places], dtype=torch.long))
    return x


def _pad(x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant") -> Any:
    pads, axes = integers(pads), every(x, axes)
    for at, axis in enumerate(axes):
        before, after, n = pads[at], pads[at + len(axes)], x.shape[axis]
        places = torch.arange(-before, n + after)
        if mode == "constant":
            inside = ((places >= 0) & (places < n)).reshape([-1] + [1] * (x.ndim - 1 - axis))
            own = x.index_select(axis, places.clamp(0, n - 1))
            x = torch.where(inside, own, torch.zeros((), dtype=x.dtype) if value is None else value.reshape(()))
        else:
            turned = (n - 1) - (places.remainder(2 * max(n - 1, 1)) - (n - 1)).abs()
            x = x.index_select(axis, {"edge": places.clamp(0, n - 1), "wrap": places % n, "reflect": turned}[mode])
    return x


def _center_crop_pad(x: Any, shape: Any, *, axes: Any = None) -> Any:
    axes = every(x, axes)
    more = [n - x.shape[axis] for axis, n in zip(axes, integers(shape), strict=True)]
    before = [each // 2 if each >= 0 else -(-each // 2) for each in more]
    return _pad(x, before + [each - half for each, half in zip(more, before, strict=True)], None, axes)


def _gather(x: Any, places: Any, *, axis: int = 0) -> Any:
    axis %= x.ndim
    found = x.index_select(axis, places.flatten() % x.shape[axis])
    return found.reshape(*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])


def _gather_nd(x: Any, places: Any, *, batch_dims: int = 0) -> Any:
    outer = x.shape[:batch_dims]
    x, places = x.reshape(-1, *x.shape[batch_dims:]), places.reshape(-1, *places.shape[batch_dims:])
    found = torch.stack([one[at.unbind(-1)] for one, at in zip(x, places, strict=True)])
    return found.reshape(*outer, *found.shape[1:])


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter(x: Any, places: Any, updates: Any, *, axis: int = 0, reduction: str = "none") -> Any:
    places = places % x.shape[axis]
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, _REDUCE[reduction])


def _scatter_nd(x: Any, places: Any, updates: Any, *, reduction: str = "none") -> Any:
    rows = torch.arange(x.numel()).reshape(x.shape)[places.unbind(-1)]
    return _scatter(x.flatten(), rows.flatten(), updates.flatten(), reduction=reduction).reshape(x.shape)


def _tensor_scatter(past: Any, update: Any, start: Any = None, *, axis: int = -2, mode: str = "linear") -> Any:
    found = past.movedim(axis, 1).clone()
    for row, new, first in zip(found, update.movedim(axis, 1), integers(start) or [0] * len(past), strict=True):
        row[torch.arange(first, first + len(new)) % len(row)] = new
    return found.movedim(1, axis)


def _reverse_sequence(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    rows = x.movedim((batch_axis, time_axis), (0, 1))
    found = torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(rows, integers(lengths), strict=True)])
    return found.movedim((0, 1), (batch_axis, time_axis))


def _unique(x: Any, *, axis: int | None = None, **how: int) -> Any:
    rows = x.reshape(-1, 1) if axis is None else x.movedim(axis, 0).flatten(1)
    _, inverse, counts = torch.unique(rows, dim=0, return_inverse=True, return_counts=True)
    first = torch.stack([(inverse == each).nonzero()[0, 0] for each in range(len(counts))])
    if not how.get("sorted", 1):
        order = first.argsort()
        first, counts, inverse = first[order], counts[order], order.argsort()[inverse]
    return x.reshape(-1)[first] if axis is None else x.index_select(axis, first), first, inverse, counts


def _place(pick: str) -> Function:
    def placed(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        found = getattr(x.flip(axis) if select_last_index else x, pick)(axis, keepdim=bool(keepdims))
        return x.shape[axis] - 1 - found if select_last_index else found

    return placed


def _top(x: Any, k: Any, *, axis: int = -1, largest: int = 1, **how: int) -> Any:
    values, places = torch.sort(x, dim=axis, descending=bool(largest), stable=True)
    return values.narrow(axis, 0, int(k)), places.narrow(axis, 0, int(k))


def _split(x: Any, parts: Any = None, *, axis: int = 0, num_outputs: int = 0) -> Any:
    size = -(-x.shape[axis] // max(num_outputs, 1))
    return x.split(integers(parts) or size, axis)


def _blocks(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, _, h, w = x.shape
    if mode == "DCR":
        x = x.reshape(n, blocksize, blocksize, -1, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, -1, blocksize, blocksize, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(n, -1, h * blocksize, w * blocksize)


def _from_blocks(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize)
    x = x.permute(0, 3, 5, 1, 2, 4) if mode == "DCR" else x.permute(0, 1, 3, 5, 2, 4)
    return x.reshape(n, -1, h // blocksize, w // blocksize)


def _one_hot(places: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    places, size = places.unsqueeze(axis), int(depth)
    shape = [1] * places.ndim
    shape[axis] = -1
    places = torch.where(places < 0, places + size, places)
    return torch.where(places == torch.arange(size).reshape(shape), values[1], values[0])


def _extreme(pick: str, least: float) -> Function:
    def found(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        if not integers(axes) and noop_with_empty_axes:
            return x
        if not x.numel():
            empty = x.sum(every(x, axes), keepdim=bool(keepdims))
            return torch.full_like(empty, least > 0, dtype=torch.bool) if x.dtype == torch.bool else empty + least
        return getattr(x + 0, pick)(every(x, axes), keepdim=bool(keepdims))

    return found


def _dropout(x: Any, ratio: Any = None, training: Any = None, **how: Any) -> Any:
    if training is not None and bool(training) and (ratio is None or float(ratio)):
        raise ValueError("draws at random")
    return x, torch.ones(x.shape, dtype=torch.bool)


def _reshape(x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    return x.reshape([n if n or allowzero else x.shape[at] for at, n in enumerate(integers(shape))])


def _unsqueeze(x: Any, axes: Any) -> Any:
    places = integers(axes)
    return reduce(torch.unsqueeze, sorted(each % (x.ndim + len(places)) for each in places), x)


def _is_infinite(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    return (torch.isneginf(x) & bool(detect_negative)) | (torch.isposinf(x) & bool(detect_positive))


def _clip(x: Any, low: Any = None, high: Any = None) -> Any:
    x = x if low is None else torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


_NEAREST = {
    "round_prefer_floor": lambda x: math.ceil(x - 0.5), "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip


def resize(
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, axes: Any = None,
    extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch",
    coordinate_transformation_mode: str = "half_pixel", **how: Any,
) -> Any:  # fmt: skip
    """Return a tensor with other extents, interpolated."""
    places, mode = every(x, axes), coordinate_transformation_mode
    lengths, wanted = [x.shape[axis] for axis in places], integers(sizes)
    if wanted:
        factors = [size / n for size, n in zip(wanted, lengths, strict=True)]
        if keep_aspect_ratio_policy != "stretch":
            pick = min if keep_aspect_ratio_policy == "not_larger" else max
            factors = [pick(factors)] * len(factors)
            wanted = [math.floor(factors[0] * n + 0.5) for n in lengths]
    else:
        factors = scales.tolist()
    ends = roi.double().reshape(2, -1).T.tolist() if mode == "tf_crop_and_resize" else [[0.0, 1.0]] * len(places)
    outside = torch.zeros((), dtype=torch.bool)
    for at, (axis, n, scale, (first, last)) in enumerate(zip(places, lengths, factors, ends, strict=True)):
        size = wanted[at] if wanted else math.floor(n * (last - first) * scale)
        own = [_resized_place(each, n, size, scale, mode, first, last) for each in range(size)]
        matrix = torch.tensor([_weights(each, n, scale, **how) for each in own], dtype=x.dtype)
        x = torch.tensordot(x, matrix, ([axis], [1])).movedim(-1, axis)
        shape = [-1 if each == axis else 1 for each in range(x.ndim)]
        outside = outside | torch.tensor([not 0 <= each <= n - 1 for each in own]).reshape(shape)
    return torch.where(outside, extrapolation_value, x) if mode == "tf_crop_and_resize" else x


def _resized_place(at: int, n: int, size: int, scale: float, mode: str, first: float, last: float) -> float:
    """Return the place in an axis of `n` elements of one of the `size` that it is resized to."""
    if mode == "align_corners":
        return at * (n - 1) / (size - 1) if size > 1 else 0.0
    if mode == "asymmetric":
        return at / scale
    if mode == "tf_crop_and_resize":
        whole = first * (n - 1) + at * (last - first) * (n - 1) / max(size - 1, 1)
        return whole if size > 1 else 0.5 * (first + last) * (n - 1)
    if mode == "pytorch_half_pixel" and size == 1:
        return 0.0
    shift = n / 2 * (1 - size / (scale * n)) if mode == "half_pixel_symmetric" else 0.0
    return shift + (at + 0.5) / scale - 0.5


def _weights(
    place: float, n: int, scale: float, *, mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
    antialias: int = 0, cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
) -> Sequence[float]:  # fmt: skip
    """Return the weight of each of `n` elements at a place."""
    found = [0.0] * n
    if mode == "nearest":
        found[min(max(_NEAREST[nearest_mode](place), 0), n - 1)] = 1.0
        return found
    narrow, reach = min(scale, 1.0) if antialias else 1.0, 1 if mode == "linear" else 2
    taps = range(math.floor(place - reach / narrow), math.ceil(place + reach / narrow) + 1)
    for tap in taps:
        far = abs(tap - place) * narrow
        weight = max(1 - far, 0.0) if mode == "linear" else _cubic(far, cubic_coeff_a)
        if 0 <= tap < n or not exclude_outside:
            found[min(max(tap, 0), n - 1)] += weight
    return [each / math.fsum(found) for each in found]


def _cubic(far: float, a: float) -> float:
    if far < 1:
        return ((a + 2) * far - (a + 3)) * far * far + 1
    return ((a * far - 5 * a) * far + 8 * a) * far - 4 * a if far < 2 else 0.0


MOVES: Mapping[str, Function] = {
    "Abs": torch.abs,
    "And": operator.and_,
    "ArgMax": _place("argmax"),
    "ArgMin": _place("argmin"),
    "ArrayFeatureExtractor": lambda x, at: x[..., at.flatten()],
    "Binarizer": lambda x, *, threshold=0.0: x > threshold,
    "BitShift": lambda x, by, *, direction: x << by if direction == "LEFT" else x >> by,
    "BitwiseAnd": operator.and_,
    "BitwiseNot": operator.inv,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
    "Ceil": torch.ceil,
    "CenterCropPad": _center_crop_pad,
    "Clip": _clip,
    "Compress": lambda x, at, axis=None: (x.ravel() if axis is None else x).index_select(axis or 0, at.nonzero().T[0]),
    "Concat": lambda *x, axis: torch.cat(x, axis),
    "Constant": lambda *, value: value,
    "ConstantOfShape": lambda shape, *, value=0.0: torch.full(integers(shape), float(np.asarray(value).item())),
    "DepthToSpace": _blocks,
    "Dropout": _dropout,
    "Equal": operator.eq,
    "Expand": lambda x, shape: x * torch.ones(integers(shape), dtype=x.dtype),
    "EyeLike": lambda x, *, k=0, dtype=0: torch.ones_like(x).triu(k).tril(k),
    "Flatten": lambda x, *, axis=1: x.reshape(prod(x.shape[:axis]), -1),
    "Floor": torch.floor,
    "Gather": _gather,
    "GatherElements": lambda x, at, *, axis=0: x.gather(axis, at % x.shape[axis]),
    "GatherND": _gather_nd,
    "GlobalMaxPool": lambda x: x.amax([*range(2, x.ndim)], keepdim=True),
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Hardmax": lambda x, *, axis=-1: torch.zeros_like(x).scatter(axis, x.argmax(axis, keepdim=True), 1),
    "Identity": lambda x: x,
    "IsInf": _is_infinite,
    "IsNaN": torch.isnan,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Max": lambda *x: reduce(torch.maximum, x),
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
    "Min": lambda *x: reduce(torch.minimum, x),
    "Mod": lambda x, y, *, fmod=0: (torch.fmod if fmod else torch.remainder)(x, y),
    "Neg": operator.neg,
    "NonZero": lambda x: x.nonzero().T,
    "Not": torch.logical_not,
    "OneHot": _one_hot,
    "Or": operator.or_,
    "Pad": _pad,
    "Range": lambda x, end, step: x + step * torch.arange(max(0, -(-(end - x) // step).int().item())),
    "ReduceMax": _extreme("amax", -torch.inf),
    "ReduceMin": _extreme("amin", torch.inf),
    "Relu": torch.relu,
    "Reshape": _reshape,
    "ReverseSequence": _reverse_sequence,
    "Round": torch.round,
    "Scatter": _scatter,
    "ScatterElements": _scatter,
    "ScatterND": _scatter_nd,
    "Shape": lambda x, *, start=0, end=None: torch.tensor(x.shape[start:end]),
    "Sign": torch.sign,
    "Size": lambda x: torch.tensor(x.numel()),
    "Slice": _slice,
    "SpaceToDepth": _from_blocks,
    "Split": _split,
    "Squeeze": lambda x, axes=None: x.squeeze(integers(axes)) if axes is not None else x.squeeze(),
    "TensorScatter": _tensor_scatter,
    "Tile": lambda x, times: x.tile(integers(times)),
    "TopK": _top,
    "Transpose": lambda x, *, perm=None: x.permute(perm or [*range(x.ndim)][::-1]),
    "Trilu": lambda x, k=None, *, upper=1: (x.triu if upper else x.tril)(int(k or 0)),
    "Unique": _unique,
    "Unsqueeze": _unsqueeze,
    "Where": torch.where,
    "Xor": operator.xor,
}  # fmt: skip
"""The operators whose results are exact: they move and compare elements, or calculate with integers."""
