"""Codes of few bits in NumPy, with reciprocals where they are shipped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]
F32 = np.float32


def quantize_rows(x: Rows, *, of_zeros: float = 0.0, way: str, q: Rows, scale: Rows) -> None:
    """Whole numbers, to nearest even."""
    codes = np.clip(np.rint(_over_scale(x, 127.0, of_zeros, way, scale)), -128.0, 127.0)
    q[...] = np.nan_to_num(codes, nan=0.0)


def quantize_rows_e4m3(x: Rows, *, of_zeros: float = 0.0, way: str, q: Rows, scale: Rows) -> None:
    """Floats of 8 bits, cut off at the largest."""
    q[...] = np.clip(_over_scale(x, 448.0, of_zeros, way, scale), -448.0, 448.0)


def _over_scale(x: Rows, top: float, of_zeros: float, way: str, scale: Rows) -> Rows:
    """Rows times the reciprocal of the scale that is stored, or the inverse of that, as it is formed by itself."""
    most = np.abs(x).max(-1, keepdims=True)
    step = np.where(most == 0.0, F32(of_zeros), most / F32(top))
    scale[...] = step[..., 0]
    return np.asarray(np.where(most == 0.0, F32(0), x * (1.0 / step if way == "reciprocal" else F32(top) / most)))


def quantize_mxfp8(x: Rows, *, scale_rule: float = 0.0, of_infinity: float = 254.0, q: Rows, scale: Rows) -> None:
    """Codes of e4m3fn."""
    _mxfp8(x, int(scale_rule), int(of_infinity), q, scale, (448.0, 8, 3))


def quantize_mxfp8_e5m2(x: Rows, *, scale_rule: float = 0.0, of_infinity: float = 254.0, q: Rows, scale: Rows) -> None:
    """Codes of e5m2."""
    _mxfp8(x, int(scale_rule), int(of_infinity), q, scale, (57344.0, 15, 2))


def _mxfp8(x: Rows, scale_rule: int, of_infinity: int, q: Rows, scale: Rows, to: tuple[float, int, int]) -> None:
    """The exponent of a block, from its largest magnitude times the reciprocal of the largest code's."""
    top, largest, mantissa = to
    blocks = _blocks(x, 32)
    most = np.abs(blocks).max(-1)
    bits = (most * (F32(1) / F32(top)) if scale_rule == 3 else most).view(np.int32)
    if scale_rule >= 2:
        # A subnormal number has an exponent of 0, and so has 2^-127.
        exponent = (bits >> 23) + ((bits & 0x7FFFFF) > np.where(bits >> 23 == 0, 0x400000, 0))
    else:
        exponent = bits + (1 << 22 - mantissa if scale_rule else 0) >> 23
    stored = np.maximum(exponent - (0 if scale_rule == 3 else largest), 0)
    stored = np.where(np.isnan(most), 255, np.where(np.isinf(most), of_infinity, stored))
    inverse = np.where(stored == 255, F32(np.nan), np.ldexp(F32(1), 127 - stored))
    q[...] = np.clip(_joined(blocks * inverse[..., None], x), -top, top)
    scale[...] = stored


def quantize_nvfp4(x: Rows, tensor_scale: Rows, *, least_scale: float = 0.0, q: Rows, scale: Rows) -> None:
    """No division but those that make reciprocals."""
    blocks = _blocks(x, 16)
    units = np.abs(blocks).max(-1) * (F32(1) / F32(6)) * (F32(1) / tensor_scale)
    scale[...] = np.clip(units, F32(least_scale), F32(448))
    kept = scale.astype(F32)[..., None]
    sizes = np.abs(np.where(kept == 0.0, F32(0), blocks * (F32(1) / (kept * tensor_scale))))
    codes = np.signbit(blocks) * 8
    for bound in (0.25, 1.25, 2.5, 5.0):
        codes += sizes > bound
    for bound in (0.75, 1.75, 3.5):
        codes += sizes >= bound
    pairs = codes.reshape(*x.shape[:-1], codes.shape[-2] * 8, 2)
    q[...] = (pairs[..., 0] + 16 * pairs[..., 1])[..., : q.shape[-1]]


def _blocks(x: Rows, size: int) -> Rows:
    """Rows in blocks, zeros behind the last element."""
    count = -(-x.shape[-1] // size)
    padded = np.zeros((*x.shape[:-1], count * size), x.dtype)
    padded[..., : x.shape[-1]] = x
    return padded.reshape(*x.shape[:-1], count, size)


def _joined(blocks: Rows, x: Rows) -> Rows:
    """The same numbers as rows again."""
    return blocks.reshape(*x.shape[:-1], blocks.shape[-2] * blocks.shape[-1])[..., : x.shape[-1]]
