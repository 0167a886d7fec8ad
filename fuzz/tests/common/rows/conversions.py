"""Conversions between formats of floats; all inputs of 8 and 16 bits."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import ml_dtypes
import numpy as np
import torch

import fuzz
from fuzz.tests.common.rows.table import right, wrong


def _of(source, target, **more):
    def checks(kernel, seed):
        return fuzz.check_conversion(kernel, source, target, **more)

    return checks


def checks_mx(kernel, seed):
    return fuzz.check_blocks(kernel, "f32", "e4m3fn")


@right(_of("f32", "bf16"), drawn=False)
def bf16_by_bits(x):
    b = x.view(np.uint32)
    rounded = (b + np.uint32(0x7FFF) + ((b >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), (b >> np.uint32(16)) | np.uint32(0x40), rounded).astype(np.uint16)


@right(_of("f16", "e5m2"), drawn=False)
def e5m2_of_ml_dtypes(x):
    return x.astype(ml_dtypes.float8_e5m2)


@right(_of("f16", "f32"), drawn=False)
def f32_by_bits(x):
    b = x.view(torch.int16).int() & 0xFFFF
    e, f = (b >> 10) & 31, b & 1023
    number = torch.ldexp((f + 1024 * (e > 0)).double(), torch.where(e > 0, e, 1) - 25)
    number = torch.where(e == 31, torch.where(f > 0, torch.nan, torch.inf), number)
    return torch.where(b >= 0x8000, -number, number).float()


@right(checks_mx, drawn=False)
def mx_by_hand(x):
    rows = x.unflatten(-1, (-1, 32))
    top = rows.abs().amax(-1).double()
    power = (torch.frexp(top).exponent - 1 - 8).clamp(-127, 127).double()
    kept = (rows * torch.exp2(-power)[..., None]).clamp(-448, 448)
    return kept.float().to(torch.float8_e4m3fn).flatten(-2), (power + 127).nan_to_num(0).to(torch.uint8)


@wrong("the carry of a NaN makes it -0", _of("f32", "bf16"), drawn=False)
def bf16_with_carry(x):
    b = x.view(np.uint32)
    return ((b + np.uint32(0x7FFF) + ((b >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


@wrong("cuts off", _of("f32", "bf16"), drawn=False)
def bf16_cut(x):
    return torch.where(x.isnan(), x, (x.view(torch.int32) & -65536).view(torch.float32)).bfloat16()


@wrong("subnormal numbers become 0", _of("f32", "f16"), drawn=False)
def f16_without_subnormals(x):
    return torch.where(x.abs() < 2.0**-14, x * 0, x).half()


@wrong("what is too large becomes NaN", _of("f32", "e4m3fn", overflow="saturate"), drawn=False)
def e4m3_not_saturated(x):
    return x.astype(ml_dtypes.float8_e4m3fn)


@wrong("is rounded to f16 first", _of("f32", "e5m2"), drawn=False)
def e5m2_by_f16(x):
    with np.errstate(all="ignore"):
        return x.astype(np.float16).astype(ml_dtypes.float8_e5m2)


@wrong("the exponent of a subnormal number is off by one", _of("f16", "f32"), drawn=False)
def f32_with_another_exponent(x):
    b = x.view(torch.int16).int() & 0xFFFF
    e, f = (b >> 10) & 31, b & 1023
    number = torch.ldexp((f + 1024 * (e > 0)).double(), e - 25)
    number = torch.where(e == 31, torch.where(f > 0, torch.nan, torch.inf), number)
    return torch.where(b >= 0x8000, -number, number).float()


@wrong("the scale is that of the first 16 of 32 elements", checks_mx, drawn=False)
def mx_of_half_a_block(x):
    rows = x.unflatten(-1, (-1, 32))
    top = rows[..., :16].abs().amax(-1).double()
    power = (torch.frexp(top).exponent - 1 - 8).clamp(-127, 127).double()
    kept = (rows * torch.exp2(-power)[..., None]).clamp(-448, 448)
    return kept.float().to(torch.float8_e4m3fn).flatten(-2), (power + 127).to(torch.uint8)
