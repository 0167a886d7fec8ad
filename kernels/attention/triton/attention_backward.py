"""The gradients of attention in Triton: those of queries by blocks of keys, those of keys and values by blocks of all
queries of a group. Shares are formed again from the logarithm of their sum."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .attention import ROWS, scores


@triton.jit
def part(
    q, k_ptr, v_ptr, dy, delta, lse, mask_ptr, rows, keys, i, j, d, e, kj, kd, vj, ve, mi, mj,
    softmax_scale, causal, window, MASK: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """The shares of some queries and keys, and their gradients by scores."""
    s = scores(
        q, k_ptr, mask_ptr, mask_ptr, rows, keys, i, j, d, kj, kd, mi, mj, 0, 0, softmax_scale, causal, window, 0.0,
        MASK, False, False, D,
    )  # fmt: skip
    across = tl.arange(0, E)
    v = tl.load(
        v_ptr + keys[None, :] * vj + across[:, None] * ve, mask=(keys < j)[None, :] & (across < e)[:, None], other=0.0
    )
    # A query beyond the last one has no share, and one that sees no key an lse of minus infinity.
    p = tl.where((s == float("-inf")) | (rows >= i)[:, None], 0.0, tl.exp(s - lse[:, None]))
    return p, p * (tl.dot(dy, v, input_precision="ieee") - delta[:, None])


@triton.jit
def of_queries(
    q_ptr, k_ptr, v_ptr, dy_ptr, delta_ptr, lse_ptr, mask_ptr, dq_ptr, group, heads, i, j, d, e, mz, mi, mj,
    softmax_scale, causal, window, MASK: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """The gradients of some queries of one head."""
    z = tl.program_id(1).to(tl.int64)
    rows, width, across = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, E)
    there = rows < i
    place = z * i * d + rows[:, None] * d + width[None, :]
    inside = there[:, None] & (width < d)[None, :]
    q = tl.load(q_ptr + place, mask=inside, other=0.0)
    dy = tl.load(
        dy_ptr + z * i * e + rows[:, None] * e + across[None, :], mask=there[:, None] & (across < e)[None, :], other=0.0
    )
    delta = tl.load(delta_ptr + z * i + rows, mask=there, other=0.0)
    lse = tl.load(lse_ptr + z * i + rows, mask=there, other=0.0)
    dq = tl.zeros((ROWS, D), tl.float32)
    for start in range(0, j, ROWS):
        keys = start + tl.arange(0, ROWS)
        _, ds = part(
            q, k_ptr + z // group * j * d, v_ptr + z // group * j * e, dy, delta, lse, mask_ptr + z // heads * mz,
            rows, keys, i, j, d, e, d, 1, e, 1, mi, mj, softmax_scale, causal, window, MASK, D, E,
        )  # fmt: skip
        k = tl.load(
            k_ptr + z // group * j * d + keys[:, None] * d + width[None, :],
            mask=(keys < j)[:, None] & (width < d)[None, :], other=0.0,
        )  # fmt: skip
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    tl.store(dq_ptr + place, dq * softmax_scale, mask=inside)


@triton.jit
def of_keys(
    q_ptr, k_ptr, v_ptr, dy_ptr, delta_ptr, lse_ptr, mask_ptr, dk_ptr, dv_ptr, group, heads, i, j, d, e, mz, mi, mj,
    softmax_scale, causal, window, MASK: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """The gradients of some keys and values of one group, over all queries of its heads."""
    y = tl.program_id(1).to(tl.int64)
    keys, width, across = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, E)
    dk, dv = tl.zeros((ROWS, D), tl.float32), tl.zeros((ROWS, E), tl.float32)
    for head in range(group):
        z = y * group + head
        for start in range(0, i, ROWS):
            rows = start + tl.arange(0, ROWS)
            there = rows < i
            q = tl.load(
                q_ptr + z * i * d + rows[:, None] * d + width[None, :],
                mask=there[:, None] & (width < d)[None, :], other=0.0,
            )  # fmt: skip
            dy = tl.load(
                dy_ptr + z * i * e + rows[:, None] * e + across[None, :],
                mask=there[:, None] & (across < e)[None, :], other=0.0,
            )  # fmt: skip
            delta = tl.load(delta_ptr + z * i + rows, mask=there, other=0.0)
            lse = tl.load(lse_ptr + z * i + rows, mask=there, other=0.0)
            p, ds = part(
                q, k_ptr + y * j * d, v_ptr + y * j * e, dy, delta, lse, mask_ptr + z // heads * mz,
                rows, keys, i, j, d, e, d, 1, e, 1, mi, mj, softmax_scale, causal, window, MASK, D, E,
            )  # fmt: skip
            dk = tl.dot(tl.trans(ds).to(q.dtype), q, dk, input_precision="ieee")
            dv = tl.dot(tl.trans(p).to(dy.dtype), dy, dv, input_precision="ieee")
    there = keys < j
    place = y * j * d + keys[:, None] * d + width[None, :]
    tl.store(dk_ptr + place, dk * softmax_scale, mask=there[:, None] & (width < d)[None, :])
    place = y * j * e + keys[:, None] * e + across[None, :]
    tl.store(dv_ptr + place, dv, mask=there[:, None] & (across < e)[None, :])


def attention_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dy: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, *,
    axis: int, softmax_scale: float, dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor,
    mask: torch.Tensor | None = None, causal: float = 0.0, window: float = -1.0,
) -> None:  # fmt: skip
    """From the output and the logarithms that the forward pass stored."""
    b, g, h, i, d = q.shape
    j, e = v.shape[2:]
    delta = (dy.float() * o.float()).sum(-1).contiguous()
    given = [each.contiguous() for each in (q, k, v, dy, delta, lse)]
    hidden = q.new_empty(0, 0, 0) if mask is None else mask.view(torch.uint8)
    sizes = (h, g * h, i, j, d, e, *hidden.stride(), softmax_scale, causal, window, mask is not None, ROWS)
    wide = [max(16, triton.next_power_of_2(each)) for each in (d, e)]
    found = [torch.zeros_like(each, memory_format=torch.contiguous_format) for each in (dq, dk, dv)]
    if q.numel():
        of_queries[(triton.cdiv(i, ROWS), b * g * h)](*given, hidden, found[0], *sizes, *wide)
    if b * g * j:
        of_keys[(triton.cdiv(j, ROWS), b * g)](*given, hidden, *found[1:], *sizes, *wide)
    for output, each in zip((dq, dk, dv), found, strict=True):
        output.copy_(each)
