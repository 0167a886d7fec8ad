"""Small Triton programs that show whether Triton compiles or interprets programs, and what goes wrong."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction

_SIZE = 16


@triton.jit
def _copy(x, y, out, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    tl.store(out + place, tl.load(x + place))


@triton.jit
def _add(x, y, out, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    tl.store(out + place, tl.load(x + place) + tl.load(y + place))


@triton.jit
def _multiply(x, y, out, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    tl.store(out + place, tl.load(x + place) * tl.load(y + place))


@triton.jit
def _widen(x, y, out, SIZE: tl.constexpr):
    """Copy numbers of few bits by way of wider types, so that nothing is rounded."""
    place = tl.arange(0, SIZE)
    tl.store(out + place, tl.load(x + place).to(tl.float32).to(tl.int32).to(tl.float32).to(out.dtype.element_ty))


@triton.jit
def _copy_in_steps(x, out, count, SIZE: tl.constexpr):
    for start in range(0, count, SIZE):
        place = start + tl.arange(0, SIZE)
        tl.store(out + place, tl.load(x + place))


@triton.jit
def _round(x, y, out, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    product = tl.load(x + place).to(tl.float32) * tl.load(y + place).to(tl.float32)
    tl.store(out + place, product.to(out.dtype.element_ty))


@triton.jit
def _store(x, y, out, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    tl.store(out + place, tl.load(x + place).to(tl.float32) * tl.load(y + place).to(tl.float32))


@triton.jit
def _sum(x, y, out, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    tl.store(out + place, tl.zeros([SIZE], tl.float32) + tl.sum(tl.load(x + place), axis=0))


def launched(device: str) -> Any:
    """Return the result of launching a program: the compiled program, or None from an interpreter."""
    x, out = torch.ones(_SIZE, device=device), torch.zeros(_SIZE, device=device)
    compiled = _copy[(1,)](x, x, out, SIZE=_SIZE)
    if not torch.equal(x, out):
        raise RuntimeError("a program that copies 16 numbers does not")
    return compiled


@cache
def loop_fault() -> str:
    """Return what is wrong with loops whose ends are arguments, as in old interpreters with a new NumPy, or ''. Nothing
    is known in a process that compiles the programs of this file."""
    if not isinstance(_copy_in_steps, InterpretedFunction):
        return ""
    x, out = torch.ones(2 * _SIZE), torch.zeros(2 * _SIZE)
    try:
        _copy_in_steps[(1,)](x, out, 2 * _SIZE, SIZE=_SIZE)
    except Exception as error:  # whatever it is, no kernel with a loop would run
        cause = error.__cause__ or error
        return f"{type(cause).__name__}: {' '.join(str(cause).split())}"
    return "" if torch.equal(x, out) else "it stops early"


def bf16_faults() -> list[str]:
    """Return the operations on bf16 whose results are not correctly rounded here."""
    # Products of odd 8-bit significands need rounding, some of them upwards. Sums of these numbers need none.
    x = (129 + 2 * torch.arange(_SIZE)).to(torch.bfloat16)
    y = (255 - 4 * torch.arange(_SIZE)).to(torch.bfloat16)
    product, sums = (x.double() * y.double()).to(torch.bfloat16), (x.double() + y.double()).to(torch.bfloat16)
    few = torch.full((_SIZE,), 1.5, dtype=torch.bfloat16)
    wanted = {
        "copies": (_copy, x, x),
        "additions": (_add, x, sums),
        "multiplications": (_multiply, x, product),
        "widening": (_widen, x, x),
        "rounding": (_round, x, product),
        "stores of float32": (_store, x, product),
        "sums": (_sum, few, few * _SIZE),
    }
    faults = []
    for name, (program, first, result) in wanted.items():
        out = torch.zeros(_SIZE, dtype=torch.bfloat16)
        try:
            program[(1,)](first, y, out, SIZE=_SIZE)
        except Exception:  # an operation that fails is wrong too
            faults.append(name)
            continue
        if not torch.equal(out, result):
            faults.append(name)
    return faults
