"""The operator of ONNX that resizes, written as its text says: each axis is multiplied by a matrix of weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from fuzz.quality.onnx_nodes.moves import every, integers

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
        own = [_place(each, n, size, scale, mode, first, last) for each in range(size)]
        matrix = torch.tensor([_weights(each, n, scale, **how) for each in own], dtype=x.dtype)
        x = torch.tensordot(x, matrix, ([axis], [1])).movedim(-1, axis)
        shape = [-1 if each == axis else 1 for each in range(x.ndim)]
        outside = outside | torch.tensor([not 0 <= each <= n - 1 for each in own]).reshape(shape)
    return torch.where(outside, extrapolation_value, x) if mode == "tf_crop_and_resize" else x


def _place(at: int, n: int, size: int, scale: float, mode: str, first: float, last: float) -> float:
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
