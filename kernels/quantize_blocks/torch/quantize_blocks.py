"""Rows in blocks with scales of their own, in torch, in float32."""

from __future__ import annotations

from typing import NamedTuple

import torch

HALF_OF_LEAST = 0x00400000
"""The bits of 2^-127, which is no normal number."""


def quantize_mxfp8(
    x: torch.Tensor, *, axis: int, scale_rule: float = 0.0, of_infinity: float = 254.0, q: torch.Tensor,
    scale: torch.Tensor,
) -> None:  # fmt: skip
    """Codes of e4m3fn."""
    _mxfp8(x, axis, int(scale_rule), int(of_infinity), q, scale, _Element(448.0, 8, 3))


def quantize_mxfp8_e5m2(
    x: torch.Tensor, *, axis: int, scale_rule: float = 0.0, of_infinity: float = 254.0, q: torch.Tensor,
    scale: torch.Tensor,
) -> None:  # fmt: skip
    """Codes of e5m2, which are cut off below infinity."""
    _mxfp8(x, axis, int(scale_rule), int(of_infinity), q, scale, _Element(57344.0, 15, 2))


class _Element(NamedTuple):
    """The largest number of a float of 8 bits, its exponent, and how many bits a mantissa has."""

    top: float
    exponent: int
    mantissa: int


def _mxfp8(
    x: torch.Tensor, axis: int, scale_rule: int, of_infinity: int, q: torch.Tensor, scale: torch.Tensor, to: _Element
) -> None:
    """The exponents of largest magnitudes by their bits, and products with powers of two."""
    if x.numel():
        rows = x.float().movedim(axis, -1)
        blocks = _in_blocks(rows, 32)
        most = blocks.abs().amax(-1)
        stored = _exponents(most, scale_rule, of_infinity, to)
        inverse = torch.where(stored == 254, HALF_OF_LEAST, (254 - stored) << 23).int().view(torch.float32)
        inverse = torch.where(stored == 255, torch.nan, inverse)
        codes = (blocks * inverse.unsqueeze(-1)).clamp(-to.top, to.top).flatten(-2)[..., : rows.shape[-1]]
        q.copy_(codes.movedim(-1, axis).to(q.dtype))
        scale.copy_(stored.to(torch.uint8))


def quantize_nvfp4(
    x: torch.Tensor, tensor_scale: torch.Tensor, *, axis: int, least_scale: float = 0.0, q: torch.Tensor,
    scale: torch.Tensor,
) -> None:  # fmt: skip
    """The scales by a cast to 8 bits, and codes by how many bounds a number is beyond."""
    if x.numel():
        rows = x.float().movedim(axis, -1)
        blocks = _in_blocks(rows, 16)
        units = blocks.abs().amax(-1) / 6.0 / tensor_scale
        stored = units.clamp(least_scale, 448.0).to(scale.dtype)
        scale.copy_(stored)
        kept = stored.float().unsqueeze(-1)
        sizes = torch.where(kept == 0.0, 0.0, blocks / (kept * tensor_scale)).abs()
        codes = torch.signbit(blocks).int() * 8
        for bound in (0.25, 1.25, 2.5, 5.0):
            codes += (sizes > bound).int()
        for bound in (0.75, 1.75, 3.5):
            codes += (sizes >= bound).int()
        pairs = codes.flatten(-2).unflatten(-1, (-1, 2))
        q.copy_((pairs[..., 0] + 16 * pairs[..., 1])[..., : q.shape[-1]].to(q.dtype))


def _in_blocks(rows: torch.Tensor, size: int) -> torch.Tensor:
    """Zeros behind the last elements."""
    return torch.nn.functional.pad(rows, (0, -rows.shape[-1] % size)).unflatten(-1, (-1, size))


def _exponents(most: torch.Tensor, scale_rule: int, of_infinity: int, to: _Element) -> torch.Tensor:
    size = most / to.top if scale_rule == 3 else most
    bits = size.view(torch.int32)
    if scale_rule == 1:
        exponent = (bits + (1 << 22 - to.mantissa)) >> 23
    elif scale_rule >= 2:
        # A subnormal number has an exponent of 0, and so has 2^-127.
        exponent = (bits >> 23) + ((bits & 0x7FFFFF) > torch.where(bits >> 23 == 0, 0x400000, 0)).int()
    else:
        exponent = bits >> 23
    stored = (exponent - (0 if scale_rule == 3 else to.exponent)).clamp(min=0)
    stored = torch.where(torch.isinf(most), of_infinity, stored)
    return torch.where(torch.isnan(most), 255, stored)
