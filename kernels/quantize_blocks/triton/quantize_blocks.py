"""Rows in blocks with scales of their own, in Triton: a block in each program.

Rows lie one pitch apart; their elements are neighbours. Codes are made of bits: no cast to 8 bits is needed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def largest(x):
    """The maximum of a reduction passes over NaN."""
    nan = tl.max((x != x).to(tl.int32), axis=0, keep_dims=True)
    return tl.where(nan > 0, float("nan"), tl.max(tl.abs(x), axis=0, keep_dims=True))


@triton.jit
def power_of(exponent):
    """2^exponent, from -127 to 127."""
    bits = tl.where(exponent == -127, 0x00400000, (exponent + 127) << 23)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def exponent_of(most, scale_rule, of_infinity):
    """The stored exponent of a power of two."""
    size = tl.where(scale_rule == 3, tl.div_rn(most, tl.zeros_like(most) + 448.0), most)
    bits = size.to(tl.int32, bitcast=True)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    # A subnormal number has an exponent of 0, and so has 2^-127.
    rises = (mantissa > tl.where(exponent == 0, 0x400000, 0)) & (scale_rule >= 2)
    rises = tl.where(scale_rule == 1, mantissa >= 0x780000, rises)
    stored = exponent + rises.to(tl.int32) - tl.where(scale_rule == 3, 0, 8)
    stored = tl.where(stored < 0, 0, stored)
    stored = tl.where(most == float("inf"), of_infinity, stored)
    return tl.where(most != most, 255, stored)


@triton.jit
def e4m3_of(value):
    """The bits of the nearest float of 8 bits, the even one of two, of a number from -448 to 448 or NaN."""
    bits = value.to(tl.int32, bitcast=True)
    exponent = ((bits >> 23) & 0xFF) - 127
    exponent = tl.where(exponent < -6, -6, exponent)
    # What is added has no bits below 1: the sum is rounded to nearest even.
    steps = (tl.abs(value) * power_of(3 - exponent) + 12582912.0) - 12582912.0
    code = (exponent + 6) * 8 + tl.where(value != value, 0.0, steps).to(tl.int32)
    return tl.where(value != value, 0x7F, code | ((bits >> 24) & 0x80))


@triton.jit
def mxfp8(
    x_ptr, q_ptr, scale_ptr, x_pitch, q_pitch, scale_pitch, n, scale_rule, of_infinity, BLOCK: tl.constexpr
):  # fmt: skip
    """One block."""
    row, number = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = number * BLOCK + tl.arange(0, BLOCK)
    inside = column < n
    x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0).to(tl.float32)
    stored = exponent_of(largest(x), scale_rule, of_infinity)
    ratio = x * power_of(127 - tl.where(stored == 255, 127, stored))
    ratio = tl.where(ratio > 448.0, 448.0, tl.where(ratio < -448.0, -448.0, ratio))
    ratio = tl.where(stored == 255, float("nan"), ratio)
    tl.store(q_ptr + row * q_pitch + column, e4m3_of(ratio).to(tl.uint8), mask=inside)
    tl.store(scale_ptr + row * scale_pitch + number + tl.arange(0, 1), stored.to(tl.uint8))


def quantize_mxfp8(
    x: torch.Tensor, *, scale_rule: float = 0.0, of_infinity: float = 254.0, q: torch.Tensor, scale: torch.Tensor
) -> None:
    """The codes of blocks of 32, and the exponents of their scales."""
    if x.numel():
        n, blocks = x.shape[-1], scale.shape[-1]
        rows, codes, found = x.view(-1, n), q.view(torch.uint8).view(-1, n), scale.view(-1, blocks)
        mxfp8[(len(rows), blocks)](
            rows, codes, found, rows.stride(0), codes.stride(0), found.stride(0), n, int(scale_rule), int(of_infinity),
            32,
        )  # fmt: skip
