"""What the operators of ONNX do that round once: conversions, and quantised numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from fuzz.quality.onnx_nodes.formulas import FORMULAS
from fuzz.quality.onnx_nodes.moves import Function, along
from fuzz.tasks.codes import CODED, Rounding, between


def stored(values: NDArray[Any], dtype: Any, *, saturate: int = 1, round_mode: str = "up") -> NDArray[Any]:
    """Return values as numbers of a dtype: floats rounded to nearest even, integers cut off and reduced to its bits."""
    name = str(dtype)
    with np.errstate(all="ignore"):
        if values.dtype.kind == "b" or name in ("bool", "float32", "float64"):
            return np.asarray(values.astype(dtype))
        if "int" in name:
            bits = 8 * dtype.itemsize if dtype.kind in "iu" else int(name.rpartition("t")[2])
            whole = np.trunc(values).astype(np.int64)
            least = 0 if name[0] == "u" else 1 << bits - 1
            return whole if bits == 64 else np.asarray(((whole + least) & ((1 << bits) - 1)) - least)
        return _rounded(values.astype(np.float64), dtype, bool(saturate), round_mode)


def _rounded(values: NDArray[Any], dtype: Any, saturate: bool, mode: str) -> NDArray[Any]:
    """Return numbers of a short format."""
    form, size = CODED[str(dtype)], np.abs(values)
    way = {"up": "upward", "down": "towards zero"}.get(mode, "away") if not form.signed else "even"
    codes = between(values, form).rounded(cast(Rounding, way), np.zeros(size.shape, np.bool_))
    nan = form.most if form.nan is None else np.nan  # as ONNX says of the format of 4 bits
    too_large = form.most if dtype.itemsize == 1 and saturate else nan if form.infinity is None else np.inf
    found = np.where((codes > np.uint64(form.largest)) | np.isinf(size), too_large, form.sizes(codes))
    if not form.signed and not saturate:
        found = np.where(size < form.tiny, np.nan, found)
    return np.where(np.isnan(values), nan, np.copysign(found, values))


def _of_each(x: Any, scale: Any, axis: int, block: int) -> Any:
    """Return the scale of each element: one, one for each index of an axis, or one for each block along it."""
    if block and scale is not None:
        return scale.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    return 0 if scale is None else along(x, scale, axis) if scale.numel() > 1 else scale.reshape(())


def _dequantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:
    return (x - _of_each(x, zero, axis, block_size)).double() * _of_each(x, scale, axis, block_size)


def _limits(kind: str) -> tuple[int, int]:
    bits = int(kind.rpartition("t")[2])
    return (0, (1 << bits) - 1) if kind[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _quantize(
    x: Any, scale: Any, zero: Any = None, *, kind: str, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    saturate: int = 1, precision: int = 0,
) -> Any:  # fmt: skip
    found = (x / _of_each(x, scale, axis, block_size)).float().double()  # the division is one of f32
    if "float" in kind:
        return found + _of_each(x, zero, axis, block_size)
    return (found.round() + _of_each(x, zero, axis, block_size)).clamp(*_limits(kind))


def _dynamic(x: Any, *, kind: str) -> Any:
    low, high = x.min().clamp(max=0), x.max().clamp(min=0)
    scale = ((high - low) / 255).float().double()
    zero = (-low / scale).round().clamp(0, 255)
    return (x / scale).float().round().double().add(zero).clamp(0, 255), scale, zero


def _matmul_integer(a: Any, b: Any, zero_a: Any = None, zero_b: Any = None) -> Any:
    zero_a = zero_a.reshape(-1, 1) if zero_a is not None and zero_a.ndim == 1 else zero_a
    return (a - (0 if zero_a is None else zero_a)) @ (b - (0 if zero_b is None else zero_b))


def _conv_integer(x: Any, w: Any, zero_x: Any = None, zero_w: Any = None, **how: Any) -> Any:
    zero_w = zero_w.reshape(-1, *[1] * (w.ndim - 1)) if zero_w is not None else 0
    return FORMULAS["Conv"]((x - (0 if zero_x is None else zero_x)).double(), (w - zero_w).double(), **how)


def _quantized(function: Function, channels: int) -> Function:
    def operator(*given: Any, kind: str, **how: Any) -> Any:
        a, scale_a, zero_a, b, scale_b, zero_b, scale, zero, *_ = given
        shape = [-1, *[1] * channels]
        zero_b, scale_b = (each.reshape(shape) if each.numel() > 1 else each for each in (zero_b, scale_b))
        found = function((a - zero_a).double(), (b - zero_b).double(), **how)
        return (found * (scale_a * scale_b / scale)).round().add(zero).clamp(*_limits(kind))

    return operator


CONVERSIONS: Mapping[str, Function] = {
    "BitCast": lambda x, *, to: x,
    "Cast": lambda x, *, to=0, saturate=1, round_mode="up": x,
    "CastLike": lambda x, like, *, saturate=1, round_mode="up": x,
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _matmul_integer,
    "QLinearConv": _quantized(FORMULAS["Conv"], 3),
    "QLinearMatMul": _quantized(torch.matmul, 0),
    "QuantizeLinear": _quantize,
}
"""The operators whose results are exact but for one rounding."""
TELLS_KIND = frozenset(("QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"))
"""Those of them that depend on the dtype of the output, and are told it."""
