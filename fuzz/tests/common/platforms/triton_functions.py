"""The functions of Triton, over arrays; and its product of matrices as a kernel has it that says nothing."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

_BLOCK, _INTERPRETED = 1024, 1 << 17
_SIDE = 32


@triton.jit
def _elementwise(x_ptr, y_ptr, z_ptr, n, NAME: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    x = tl.load(x_ptr + place, mask=inside, other=1.0)
    y = tl.load(y_ptr + place, mask=inside, other=1.0)
    if NAME == "exp":
        z = tl.exp(x)
    elif NAME == "exp2":
        z = tl.exp2(x)
    elif NAME == "log":
        z = tl.log(x)
    elif NAME == "log2":
        z = tl.log2(x)
    elif NAME == "sin":
        z = tl.sin(x)
    elif NAME == "cos":
        z = tl.cos(x)
    elif NAME == "erf":
        z = tl.erf(x)
    elif NAME == "sigmoid":
        z = tl.sigmoid(x)
    elif NAME == "sqrt":
        z = tl.sqrt(x)
    elif NAME == "rsqrt":
        z = tl.rsqrt(x)
    elif NAME == "one over sqrt":
        z = 1.0 / tl.sqrt(x)
    elif NAME == "divide":
        z = x / y
    elif NAME == "add":
        z = x + y
    elif NAME == "multiply":
        z = x * y
    else:
        z = x * x + y
    tl.store(z_ptr + place, z, mask=inside)


@triton.jit
def _of_library(x_ptr, z_ptr, n, NAME: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    x = tl.load(x_ptr + place, mask=inside, other=1.0)
    if NAME == "tanh":
        z = libdevice.tanh(x)
    elif NAME == "expm1":
        z = libdevice.expm1(x)
    elif NAME == "log1p":
        z = libdevice.log1p(x)
    else:
        z = libdevice.atan(x)
    tl.store(z_ptr + place, z, mask=inside)


@triton.jit
def _product(a_ptr, b_ptr, c_ptr, SIDE: tl.constexpr):
    row, column = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    place = row * SIDE + column
    tl.store(c_ptr + place, tl.dot(tl.load(a_ptr + place), tl.load(b_ptr + place)))


def call(name: str, x: Any, y: Any, z: Any, *, library: bool) -> None:
    """Write a function of arrays to a third one."""
    n, block = x.numel(), _BLOCK if x.is_cuda else _INTERPRETED
    grid = (triton.cdiv(n, block),)
    if library:
        _of_library[grid](x, z, n, name, block)
    else:
        _elementwise[grid](x, y, z, n, name, block)


def bits_of_products(device: str) -> int:
    """Return how many bits of an f32 operand go into a product of matrices: 24, or 11 of TF32."""
    one = torch.eye(_SIDE, device=device)
    for bits in range(24, 1, -1):
        value = 1 + 2.0 ** (1 - bits)
        found = torch.empty_like(one)
        _product[(1,)](one * value, one, found, _SIDE)
        if float(found[0, 0]) == value:
            return bits
    return 1
