"""cumsum, linear_recurrence and conv1d in Triton: scans of rows that registers hold, and taps of a block of elements.

Rows lie one pitch apart; their elements are neighbours. All arithmetic is float32, with one cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

MAX_ROW = 4096
"""Registers hold a row of at most this many elements."""
BLOCK = 128
"""The elements of a row whose taps one program adds."""


@triton.jit
def summed(x_ptr, y_ptr, x_pitch, y_pitch, n, BLOCK: tl.constexpr):
    """The sums of one row, as a tree."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_pitch + column, mask=column < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_pitch + column, tl.cumsum(x, 0), mask=column < n)


@triton.jit
def _after(gate, state, next_gate, next_state):
    return gate * next_gate, next_gate * state + next_state


@triton.jit
def recurred(
    x_ptr, gate_ptr, start_ptr, h_ptr, x_pitch, gate_pitch, h_pitch, n, START: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The states of one row, as a tree of pairs."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < n
    x = tl.load(x_ptr + row * x_pitch + column, mask=inside, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + row * gate_pitch + column, mask=inside, other=0.0).to(tl.float32)
    if START:
        # The first place takes in what there was before it.
        x = tl.where(column == 0, gate * tl.load(start_ptr + row).to(tl.float32) + x, x)
    _, h = tl.associative_scan((gate, x), 0, _after)
    tl.store(h_ptr + row * h_pitch + column, h, mask=inside)


@triton.jit
def convolved(
    x_ptr, weight_ptr, bias_ptr, y_ptr, channels, n, x_pitch, weight_pitch, y_pitch,
    TAPS: tl.constexpr, BIAS: tl.constexpr, SILU: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of one row."""
    row = tl.program_id(0).to(tl.int64)
    channel = row % channels
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    z = tl.zeros([BLOCK], tl.float32)
    for k in tl.static_range(TAPS):
        place = column + k - (TAPS - 1)
        x = tl.load(x_ptr + row * x_pitch + place, mask=(place >= 0) & (place < n), other=0.0).to(tl.float32)
        z += x * tl.load(weight_ptr + channel * weight_pitch + k).to(tl.float32)
    if BIAS:
        z += tl.load(bias_ptr + channel).to(tl.float32)
    if SILU:
        z = z * (1.0 / (1.0 + tl.exp(-z)))
    tl.store(y_ptr + row * y_pitch + column, z, mask=column < n)


def cumsum(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """The sums of each row, one program for each."""
    n = x.shape[-1]
    if x.numel():
        rows, out = x.view(-1, n), y.view(-1, n)
        summed[(len(rows),)](rows, out, rows.stride(0), out.stride(0), n, triton.next_power_of_2(n))


def linear_recurrence(x: torch.Tensor, gate: torch.Tensor, *, hs: torch.Tensor, h0: torch.Tensor | None = None) -> None:
    """The states of each row, one program for each."""
    n = x.shape[-1]
    if x.numel():
        rows, gates, out = (each.view(-1, n) for each in (x, gate, hs))
        recurred[(len(rows),)](
            rows, gates, rows if h0 is None else h0, out, rows.stride(0), gates.stride(0), out.stride(0), n,
            h0 is not None, triton.next_power_of_2(n),
        )  # fmt: skip


def conv1d(
    x: torch.Tensor, weight: torch.Tensor, *, y: torch.Tensor, bias: torch.Tensor | None = None, silu: float = 0.0
) -> None:
    """Blocks of each row, one program for each."""
    channels, n = x.shape[-2:]
    if x.numel():
        rows, out = x.view(-1, n), y.view(-1, n)
        convolved[(len(rows), triton.cdiv(n, BLOCK))](
            rows, weight, weight if bias is None else bias, out, channels, n, rows.stride(0), weight.stride(0),
            out.stride(0), weight.shape[1], bias is not None, silu >= 0.5, BLOCK,
        )  # fmt: skip
