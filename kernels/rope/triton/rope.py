"""rope of either pairing and its gradients in Triton: a program for the pairs of one head.

Heads lie without gaps. All arithmetic is float32, with one cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def turn(
    x_ptr, cos_ptr, sin_ptr, y_ptr, places, pairs, width, DIRECTION: tl.constexpr, NEIGHBOURS: tl.constexpr,
    BLOCK: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    """One head: its pairs, and what follows them."""
    head = tl.program_id(0).to(tl.int64)
    place = head % places
    pair = tl.arange(0, BLOCK)
    inside = pair < pairs
    if NEIGHBOURS:
        first, apart = head * width + 2 * pair, 1
    else:
        first, apart = head * width + pair, pairs
    a = tl.load(x_ptr + first, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(x_ptr + first + apart, mask=inside, other=0.0).to(tl.float32)
    c = tl.load(cos_ptr + place * pairs + pair, mask=inside, other=0.0).to(tl.float32)
    s = tl.load(sin_ptr + place * pairs + pair, mask=inside, other=0.0).to(tl.float32) * DIRECTION
    tl.store(y_ptr + first, a * c - b * s, mask=inside)
    tl.store(y_ptr + first + apart, b * c + a * s, mask=inside)
    for start in range(2 * pairs, width, REST):
        column = start + tl.arange(0, REST)
        rest = tl.load(x_ptr + head * width + column, mask=column < width, other=0.0)
        tl.store(y_ptr + head * width + column, rest, mask=column < width)


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, y: torch.Tensor) -> None:
    """Halves."""
    _run(x, cos, sin, y, 1.0, neighbours=False)


def rope_backward(dy: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, dx: torch.Tensor) -> None:
    """Halves, turned back."""
    _run(dy, cos, sin, dx, -1.0, neighbours=False)


def rope_interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, y: torch.Tensor) -> None:
    """Neighbours."""
    _run(x, cos, sin, y, 1.0, neighbours=True)


def rope_interleaved_backward(dy: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, dx: torch.Tensor) -> None:
    """Neighbours, turned back."""
    _run(dy, cos, sin, dx, -1.0, neighbours=True)


def _run(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, y: torch.Tensor, direction: float, *, neighbours: bool
) -> None:
    if x.numel() == 0:
        return
    places, pairs = cos.shape
    width = x.shape[-3] * x.shape[-2] * x.shape[-1] if neighbours else x.shape[-2] * x.shape[-1]
    heads = x.numel() // width
    turn[(heads,)](x, cos, sin, y, places, pairs, width, direction, neighbours, triton.next_power_of_2(pairs), 64)
