"""Rows in blocks with scales of their own, in Triton: some blocks of a row in each program.

Rows lie one pitch apart; their elements are neighbours. Codes are made of bits: no cast to 8 bits is needed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def largest(x):
    """The largest magnitude of each block. The maximum of a reduction passes over NaN."""
    nan = tl.max((x != x).to(tl.int32), axis=1, keep_dims=True)
    return tl.where(nan > 0, float("nan"), tl.max(tl.abs(x), axis=1, keep_dims=True))


@triton.jit
def power_of(exponent):
    """2^exponent, from -127 to 127."""
    bits = tl.where(exponent == -127, 0x00400000, (exponent + 127) << 23)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def exponent_of(most, scale_rule, of_infinity, TOP: tl.constexpr, TOP_EXPONENT: tl.constexpr, MANTISSA: tl.constexpr):
    """The stored exponent of a power of two."""
    size = tl.where(scale_rule == 3, tl.div_rn(most, tl.zeros_like(most) + TOP), most)
    bits = size.to(tl.int32, bitcast=True)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    # A subnormal number has an exponent of 0, and so has 2^-127.
    rises = (mantissa > tl.where(exponent == 0, 0x400000, 0)) & (scale_rule >= 2)
    rises = tl.where(scale_rule == 1, mantissa >= 0x800000 - (1 << (22 - MANTISSA)), rises)
    stored = exponent + rises.to(tl.int32) - tl.where(scale_rule == 3, 0, TOP_EXPONENT)
    stored = tl.where(stored < 0, 0, stored)
    stored = tl.where(most == float("inf"), of_infinity, stored)
    return tl.where(most != most, 255, stored)


@triton.jit
def byte_of(value, MANTISSA: tl.constexpr, LEAST: tl.constexpr):
    """The bits of the nearest float of 8 bits, the even one of two, of a number that is no larger than these, or NaN:
    so many are the mantissa's, and that is the least exponent."""
    bits = value.to(tl.int32, bitcast=True)
    exponent = ((bits >> 23) & 0xFF) - 127
    exponent = tl.where(exponent < LEAST, LEAST, exponent)
    # What is added has no bits below 1: the sum is rounded to nearest even.
    steps = (tl.abs(value) * power_of(MANTISSA - exponent) + 12582912.0) - 12582912.0
    code = ((exponent - LEAST) << MANTISSA) + tl.where(value != value, 0.0, steps).to(tl.int32)
    return tl.where(value != value, 0x7F, code | ((bits >> 24) & 0x80))


@triton.jit
def e4m3_of_scale(value):
    """The nearest float of 8 bits to a number from 0 to 448 or NaN."""
    exponent = ((value.to(tl.int32, bitcast=True) >> 23) & 0xFF) - 127
    exponent = tl.where(exponent < -6, -6, exponent)
    exponent = tl.where(exponent > 8, 8, exponent)
    steps = (value * power_of(3 - exponent) + 12582912.0) - 12582912.0
    return steps * power_of(exponent - 3)


@triton.jit
def e2m1_of(size):
    """The code of the nearest float of 4 bits, the even one of two, without its sign."""
    below = (size > 0.25).to(tl.int32) + (size > 1.25).to(tl.int32) + (size > 2.5).to(tl.int32)
    beside = (size >= 0.75).to(tl.int32) + (size >= 1.75).to(tl.int32) + (size >= 3.5).to(tl.int32)
    return below + beside + (size > 5.0).to(tl.int32)


@triton.jit
def nibble_of(x, scale, step):
    """A code with its sign."""
    size = tl.abs(tl.div_rn(x, tl.zeros_like(x) + step))
    code = e2m1_of(tl.where(scale == 0.0, 0.0, size))
    return code | ((x.to(tl.int32, bitcast=True) >> 28) & 8)


@triton.jit
def mxfp8(
    x_ptr, q_ptr, scale_ptr, x_pitch, q_pitch, scale_pitch, n, blocks, scale_rule, of_infinity,
    TOP: tl.constexpr, TOP_EXPONENT: tl.constexpr, MANTISSA: tl.constexpr, LEAST: tl.constexpr, TILE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Some blocks of a row."""
    row = tl.program_id(0).to(tl.int64)
    number = tl.program_id(1) * TILE + tl.arange(0, TILE)[:, None]
    column = number * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + row * x_pitch + column, mask=column < n, other=0.0).to(tl.float32)
    stored = exponent_of(largest(x), scale_rule, of_infinity, TOP, TOP_EXPONENT, MANTISSA)
    ratio = x * power_of(127 - tl.where(stored == 255, 127, stored))
    ratio = tl.where(ratio > TOP, TOP, tl.where(ratio < -TOP, -TOP, ratio))
    ratio = tl.where(stored == 255, float("nan"), ratio)
    tl.store(q_ptr + row * q_pitch + column, byte_of(ratio, MANTISSA, LEAST).to(tl.uint8), mask=column < n)
    tl.store(scale_ptr + row * scale_pitch + number, stored.to(tl.uint8), mask=number < blocks)


def quantize_mxfp8(
    x: torch.Tensor, *, scale_rule: float = 0.0, of_infinity: float = 254.0, q: torch.Tensor, scale: torch.Tensor
) -> None:
    """Codes of e4m3fn."""
    blocks_of_32(x, int(scale_rule), int(of_infinity), q, scale, (448.0, 8, 3, -6))


def quantize_mxfp8_e5m2(
    x: torch.Tensor, *, scale_rule: float = 0.0, of_infinity: float = 254.0, q: torch.Tensor, scale: torch.Tensor
) -> None:
    """Codes of e5m2."""
    blocks_of_32(x, int(scale_rule), int(of_infinity), q, scale, (57344.0, 15, 2, -14))


def blocks_of_32(
    x: torch.Tensor, scale_rule: int, of_infinity: int, q: torch.Tensor, scale: torch.Tensor,
    element: tuple[float, int, int, int],
) -> None:  # fmt: skip
    """The codes of blocks, and the exponents of their scales."""
    if x.numel():
        n, blocks = x.shape[-1], scale.shape[-1]
        rows, codes, found = x.view(-1, n), q.view(torch.uint8).view(-1, n), scale.view(-1, blocks)
        mxfp8[(len(rows), triton.cdiv(blocks, 32))](
            rows, codes, found, rows.stride(0), codes.stride(0), found.stride(0), n, blocks, scale_rule,
            of_infinity, *element, 32, 32,
        )  # fmt: skip


@triton.jit
def nvfp4(
    x_ptr, tensor_scale_ptr, q_ptr, scale_ptr, x_pitch, q_pitch, scale_pitch, n, blocks, least_scale,
    TILE: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """Some blocks of a row, the first and the second elements of their pairs apart."""
    row = tl.program_id(0).to(tl.int64)
    number = tl.program_id(1) * TILE + tl.arange(0, TILE)[:, None]
    pair = number * PAIRS + tl.arange(0, PAIRS)[None, :]
    first = tl.load(x_ptr + row * x_pitch + 2 * pair, mask=2 * pair < n, other=0.0).to(tl.float32)
    second = tl.load(x_ptr + row * x_pitch + 2 * pair + 1, mask=2 * pair + 1 < n, other=0.0).to(tl.float32)
    tensor_scale = tl.load(tensor_scale_ptr)
    most, other = largest(first), largest(second)
    most = tl.where((most > other) | (most != most), most, other)
    units = tl.div_rn(tl.div_rn(most, tl.zeros_like(most) + 6.0), tl.zeros_like(most) + tensor_scale)
    units = tl.where(units < least_scale, least_scale, tl.where(units > 448.0, 448.0, units))
    scale = e4m3_of_scale(units)
    step = scale * tensor_scale
    code = nibble_of(first, scale, step) | (nibble_of(second, scale, step) << 4)
    tl.store(q_ptr + row * q_pitch + pair, code.to(tl.uint8), mask=2 * pair < n)
    tl.store(scale_ptr + row * scale_pitch + number, byte_of(scale, 3, -6).to(tl.uint8), mask=number < blocks)


def quantize_nvfp4(
    x: torch.Tensor, tensor_scale: torch.Tensor, *, least_scale: float = 0.0, q: torch.Tensor, scale: torch.Tensor
) -> None:
    """The codes of blocks of 16, two in a byte, and their scales."""
    if x.numel():
        n, blocks, pairs = x.shape[-1], scale.shape[-1], q.shape[-1]
        rows, codes, found = x.view(-1, n), q.view(-1, pairs), scale.view(torch.uint8).view(-1, blocks)
        nvfp4[(len(rows), triton.cdiv(blocks, 64))](
            rows, tensor_scale, codes, found, rows.stride(0), codes.stride(0), found.stride(0), n, blocks, least_scale,
            64, 8,
        )  # fmt: skip
