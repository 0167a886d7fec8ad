"""gelu, its approximation and silu_mul with their gradients in Triton: blocks of all elements, which lie without gaps.

All arithmetic is float32, with one cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024
"""Elements of a program."""


@triton.jit
def _gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def _gelu_backward(x, dy):
    cdf = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
    return dy * (cdf + x * (tl.exp(x * x * -0.5) * 0.3989422804014327))


@triton.jit
def _gelu_tanh(x):
    # There is no hyperbolic tangent: (1 + tanh(u)) / 2 is the sigmoid of 2 u.
    u = 0.7978845608028654 * (x + 0.044715 * (x * x * x))
    return tl.div_rn(x, 1.0 + tl.exp(-2.0 * u))


@triton.jit
def _gated(gate, up):
    return tl.div_rn(gate, 1.0 + tl.exp(-gate)) * up


@triton.jit
def _of_one(x_ptr, y_ptr, elements, TANH: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < elements
    x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + place, _gelu_tanh(x) if TANH else _gelu(x), mask=inside)


@triton.jit
def _of_two(x_ptr, other_ptr, y_ptr, elements, GATED: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < elements
    x = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    other = tl.load(other_ptr + place, mask=inside, other=0.0).to(tl.float32)
    y = _gated(x, other) if GATED else _gelu_backward(x, other)
    tl.store(y_ptr + place, y, mask=inside)


@triton.jit
def _silu_mul_gradients(gate_ptr, up_ptr, dy_ptr, dgate_ptr, dup_ptr, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < elements
    gate = tl.load(gate_ptr + place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + place, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + place, mask=inside, other=0.0).to(tl.float32)
    s = tl.div_rn(tl.full([BLOCK], 1.0, tl.float32), 1.0 + tl.exp(-gate))
    tl.store(dgate_ptr + place, dy * up * (s * (1.0 + gate * (1.0 - s))), mask=inside)
    tl.store(dup_ptr + place, dy * (gate * s), mask=inside)


def gelu(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """By the error function."""
    _run(_of_one, x, y, False)


def gelu_tanh(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """By an exponential."""
    _run(_of_one, x, y, True)


def gelu_backward(x: torch.Tensor, dy: torch.Tensor, *, dx: torch.Tensor) -> None:
    """dx = dy (cdf + x pdf)."""
    _run(_of_two, x, dy, dx, False)


def silu_mul(gate: torch.Tensor, up: torch.Tensor, *, y: torch.Tensor) -> None:
    """gate / (1 + e^-gate), times up."""
    _run(_of_two, gate, up, y, True)


def silu_mul_backward(
    gate: torch.Tensor, up: torch.Tensor, dy: torch.Tensor, *, dgate: torch.Tensor, dup: torch.Tensor
) -> None:
    """Both gradients, from what the forward was given."""
    _run(_silu_mul_gradients, gate, up, dy, dgate, dup)


def _run(kernel: triton.JITFunction, x: torch.Tensor, *others: torch.Tensor | bool) -> None:
    elements = x.numel()
    if elements:
        tensors = [each for each in others if isinstance(each, torch.Tensor)]
        flags = [each for each in others if isinstance(each, bool)]
        kernel[(triton.cdiv(elements, BLOCK),)](x, *tensors, elements, *flags, BLOCK)
