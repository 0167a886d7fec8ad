"""Attention in Triton, by blocks of keys: where the maximum of a query grows, what there is so far is rescaled.

Scores, sums and products are float32; shares are multiplied in the dtype of the values, with one cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

ROWS = 16
"""The queries of a program, and the keys that it takes at once."""
NOTHING = float("-inf")


@triton.jit
def seen(s, rows, keys, i, j, causal, window):
    """Scores of these rows and keys, minus infinity where a query does not see a key."""
    ahead = keys[None, :] - rows[:, None] - tl.where(causal >= 1.5, j - i, 0)
    hidden = (
        (keys >= j)[None, :] | ((causal > 0.0) & (ahead > 0)) | ((window >= 0.0) & (ahead.to(tl.float32) < -window))
    )
    return tl.where(hidden, float("-inf"), s)


@triton.jit
def scores(
    q, k_ptr, mask_ptr, bias_ptr, rows, keys, i, j, d, kj, kd, mi, mj, bi, bj, softmax_scale, causal, window, cap,
    MASK: tl.constexpr, BIAS: tl.constexpr, CAP: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """The scores of some queries and keys."""
    width = tl.arange(0, D)
    there = (keys < j)[None, :]
    k = tl.load(k_ptr + keys[None, :] * kj + width[:, None] * kd, mask=(width < d)[:, None] & there, other=0.0)
    s = tl.dot(q, k, input_precision="ieee") * softmax_scale
    inside = (rows < i)[:, None] & there
    if CAP:
        s = cap * (1.0 - 2.0 / (tl.exp(2.0 * (s / cap)) + 1.0))
    if BIAS:
        s += tl.load(bias_ptr + rows[:, None] * bi + keys[None, :] * bj, mask=inside, other=0.0).to(tl.float32)
    s = seen(s, rows, keys, i, j, causal, window)
    if MASK:
        visible = tl.load(mask_ptr + rows[:, None] * mi + keys[None, :] * mj, mask=inside, other=0) != 0
        s = tl.where(visible, s, float("-inf"))
    return s


@triton.jit
def flash(
    q_ptr, k_ptr, v_ptr, mask_ptr, bias_ptr, o_ptr, lse_ptr, group, heads, i, j, d, e,
    qz, qi, qd, kz, kj, kd, vz, vj, ve, mz, mi, mj, bz, bi, bj, oz, oi, oe, lz, li,
    softmax_scale, causal, window, cap, blank,
    MASK: tl.constexpr, BIAS: tl.constexpr, LSE: tl.constexpr, CAP: tl.constexpr,
    ROWS: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """Some queries of one head; `group` heads have their keys in common, and `heads` are of one batch."""
    z = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    width, across = tl.arange(0, D), tl.arange(0, E)
    q = tl.load(
        q_ptr + z * qz + rows[:, None] * qi + width[None, :] * qd,
        mask=(rows < i)[:, None] & (width < d)[None, :], other=0.0,
    )  # fmt: skip
    most = tl.full((ROWS,), float("-inf"), tl.float32)
    mass = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, E), tl.float32)
    for start in range(0, j, ROWS):
        keys = start + tl.arange(0, ROWS)
        s = scores(
            q, k_ptr + z // group * kz, mask_ptr + z // heads * mz, bias_ptr + z % heads * bz, rows, keys, i, j, d,
            kj, kd, mi, mj, bi, bj, softmax_scale, causal, window, cap, MASK, BIAS, CAP, D,
        )  # fmt: skip
        largest = tl.maximum(most, tl.max(s, 1))
        shift = tl.where(largest == float("-inf"), 0.0, largest)
        again, p = tl.exp(most - shift), tl.exp(s - shift[:, None])
        v = tl.load(
            v_ptr + z // group * vz + keys[:, None] * vj + across[None, :] * ve,
            mask=(keys < j)[:, None] & (across < e)[None, :], other=0.0,
        )  # fmt: skip
        mass = mass * again + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * again[:, None], input_precision="ieee")
        most = largest
    # The largest score of a row without keys has no share: where there is one, the sum is 1 at least, or NaN.
    nothing = (mass == 0.0)[:, None]
    o = tl.where(nothing, tl.where(blank >= 0.5, float("nan"), 0.0), acc / tl.where(nothing, 1.0, mass[:, None]))
    inside = (rows < i)[:, None] & (across < e)[None, :]
    tl.store(o_ptr + z * oz + rows[:, None] * oi + across[None, :] * oe, o, mask=inside)
    if LSE:
        tl.store(lse_ptr + z * lz + rows * li, most + tl.log(mass), mask=rows < i)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, axis: int, softmax_scale: float, o: torch.Tensor,
    mask: torch.Tensor | None = None, bias: torch.Tensor | None = None, lse: torch.Tensor | None = None,
    causal: float = 0.0, window: float = -1.0, cap: float = 0.0, blank: float = 0.0,
) -> None:  # fmt: skip
    """Blocks of queries of each head, each by one program."""
    b, g, h, i, d = q.shape
    j, e = v.shape[2:]
    z = b * g * h
    if z * i == 0:
        return
    heads = [q.reshape(z, i, d), k.reshape(b * g, j, d), v.reshape(b * g, j, e)]
    hidden = q.new_empty(0, 0, 0) if mask is None else mask.view(torch.uint8)
    added = q.new_empty(0, 0, 0) if bias is None else bias.reshape(g * h, i, j)
    found = o.new_empty(z, i, e)
    logs = q.new_empty(z if lse is not None else 0, i, dtype=torch.float32)
    flash[(triton.cdiv(i, ROWS), z)](
        *heads, hidden, added, found, logs, h, g * h, i, j, d, e,
        *(step for each in (*heads, hidden, added, found, logs) for step in each.stride()),
        softmax_scale, causal, window, cap, blank, mask is not None, bias is not None, lse is not None, cap > 0,
        ROWS, max(16, triton.next_power_of_2(d)), max(16, triton.next_power_of_2(e)),
    )  # fmt: skip
    o.copy_(found.reshape(o.shape))
    if lse is not None:
        lse.copy_(logs.reshape(lse.shape))
