"""Integers: division with each rounding, wrap-around, saturation, products of int8, counts of bits, packing."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np
import torch

import fuzz
from fuzz.tests.common.rows.table import right, wrong


def remainder(a, b):
    return torch.remainder(a, b)


def quotient(a, b):
    return torch.div(a, b, rounding_mode="floor")


def product(a, b):
    return (a.int()[:, :, None] * b.int()).sum(1, dtype=torch.int32)


def saturated(a, b):
    return (a.short() + b.short()).clamp(-128, 127).to(torch.int8)


def bits(a):
    return sum((a >> i) & 1 for i in range(32))


def shifted(a, b):
    return a >> (b & 31)


def nibbles(p):
    """Two numbers of 4 bits with a sign, the first in the low half."""
    return torch.stack([((p & 15) ^ 8).to(torch.int8) - 8, ((p >> 4) ^ 8).to(torch.int8) - 8], -1).flatten(-2)


def averaged(a, b):
    return ((a.int() + b.int() + 1) >> 1).to(torch.uint8)


def _pairs(reference, dtype):
    def checks(kernel, seed):
        given = dict.fromkeys(("a", "b"), dtype)
        fuzz.check(kernel, reference=reference, shapes="a=n, b=n", dtypes=given, oracle="replay", seed=seed)

    return checks


def checks_product(kernel, seed):
    given = {"a": "int8", "b": "int8"}
    fuzz.check(kernel, reference=product, shapes="a=m k, b=k n", dtypes=given, oracle="replay", seed=seed)


def checks_bits(kernel, seed):
    fuzz.check(kernel, reference=bits, shapes="a=n", dtypes={"a": "int32"}, oracle="replay", seed=seed)


def checks_nibbles(kernel, seed):
    fuzz.check(kernel, reference=nibbles, shapes="p=n", dtypes={"p": "uint8"}, oracle="replay", seed=seed)


@right(_pairs(quotient, "int16"))
def quotient_by_hand(a, b):
    wide, by = a.astype(np.int32), b.astype(np.int32)
    q = np.trunc(wide / by).astype(np.int32)
    return (q - ((wide % by != 0) & ((wide < 0) != (by < 0)))).astype(np.int16)


@right(checks_bits)
def bits_in_parallel(a):
    v = a.view(np.uint32)
    v = v - ((v >> np.uint32(1)) & np.uint32(0x55555555))
    v = (v & np.uint32(0x33333333)) + ((v >> np.uint32(2)) & np.uint32(0x33333333))
    v = (v + (v >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return ((v * np.uint32(0x01010101)) >> np.uint32(24)).astype(np.int32)


@right(checks_product)
def product_in_doubles(a, b):
    return (a.double() @ b.double()).int()


@wrong("the remainder has the sign of the dividend", _pairs(remainder, "int8"))
def remainder_of_c(a, b):
    return torch.fmod(a, b)


@wrong("wraps around", _pairs(saturated, "int8"))
def not_saturated(a, b):
    return a + b


@wrong("adds two products in 16 bits, in which 32,768 is no number", checks_product)
def product_by_pairs(a, b):
    k = a.shape[1]
    a, b = np.pad(a, ((0, 0), (0, k % 2))).astype(np.int16), np.pad(b, ((0, k % 2), (0, 0))).astype(np.int16)
    pairs = a[:, 0::2, None] * b[None, 0::2] + a[:, 1::2, None] * b[None, 1::2]
    return pairs.astype(np.int32).sum(1, dtype=np.int32)


@wrong("moves 0 in place of the sign", _pairs(shifted, "int32"))
def shifted_without_sign(a, b):
    return (a.view(np.uint32) >> (b & 31).astype(np.uint32)).view(np.int32)


@wrong("the sign is no bit", checks_bits)
def bits_of_magnitude(a):
    count, left = torch.zeros_like(a), a.clone()
    for _ in range(32):
        count += (left > 0) & (left & 1 == 1)
        left = left >> 1
    return count


@wrong("adds in 8 bits", _pairs(averaged, "uint8"))
def averaged_in_bytes(a, b):
    return (a + b + 1) >> 1


@wrong("the upper half has no sign", checks_nibbles)
def nibbles_half_signed(p):
    low = ((p & 15) ^ 8).astype(np.int8) - np.int8(8)
    return np.stack([low, (p >> 4).astype(np.int8)], -1).reshape(-1)
