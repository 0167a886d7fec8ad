"""paged_attention in Triton: one head of one sequence in each program, page by page, rescaled as the maximum grows.

Scores, sums and products are float32, with one cast at the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def decoded(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, o_ptr, lse_ptr, heads, slots, d, e,
    qb, qg, qh, qd, kp, ks, kg, kd, vp, vs, vg, ve, tb, tt, lb, ob, og, oh, oe, mb, mg, mh, softmax_scale,
    LSE: tl.constexpr, S: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """All keys of a sequence, as many at once as a page has slots."""
    b, g, h = tl.program_id(1).to(tl.int64), tl.program_id(0) // heads, tl.program_id(0) % heads
    width, across, slot = tl.arange(0, D), tl.arange(0, E), tl.arange(0, S)
    q = tl.load(q_ptr + b * qb + g * qg + h * qh + width * qd, mask=width < d, other=0.0).to(tl.float32)
    length = tl.load(lengths_ptr + b * lb).to(tl.int32)
    most, mass = float("-inf"), 0.0
    acc = tl.zeros((E,), tl.float32)
    for t in range(tl.cdiv(length, slots)):
        page = tl.load(table_ptr + b * tb + t * tt).to(tl.int64)
        there = (slot < slots) & (slot < tl.where(page < 0, 0, length - t * slots))
        k = tl.load(
            k_ptr + page * kp + slot[:, None] * ks + g * kg + width[None, :] * kd,
            mask=there[:, None] & (width < d)[None, :], other=0.0,
        )  # fmt: skip
        s = tl.where(there, tl.sum(k.to(tl.float32) * q[None, :], 1) * softmax_scale, float("-inf"))
        largest = tl.maximum(most, tl.max(s, 0))
        shift = tl.where(largest == float("-inf"), 0.0, largest)
        again, p = tl.exp(most - shift), tl.exp(s - shift)
        v = tl.load(
            v_ptr + page * vp + slot[:, None] * vs + g * vg + across[None, :] * ve,
            mask=there[:, None] & (across < e)[None, :], other=0.0,
        )  # fmt: skip
        mass = mass * again + tl.sum(p, 0)
        acc = acc * again + tl.sum(p[:, None] * v.to(tl.float32), 0)
        most = largest
    # The largest share of a sequence with keys is 1, or NaN.
    nothing = mass == 0.0
    o = tl.where(nothing, 0.0, acc / tl.where(nothing, 1.0, mass))
    tl.store(o_ptr + b * ob + g * og + h * oh + across * oe, o, mask=across < e)
    if LSE:
        tl.store(lse_ptr + b * mb + g * mg + h * mh, most + tl.log(mass))


def paged_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, *,
    softmax_scale: float, o: torch.Tensor, lse: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """Each head of each sequence by one program."""
    (b, g, h, d), (_, slots, _, e) = q.shape, v.shape
    if b * g * h == 0:
        return
    logs = q.new_empty(0, 0, 0, dtype=torch.float32) if lse is None else lse
    decoded[(g * h, b)](
        q, k, v, table, lengths, o, logs, h, max(slots, 1), d, e,
        *(step for each in (q, k, v, table, lengths, o, logs) for step in each.stride()), softmax_scale,
        lse is not None, *(triton.next_power_of_2(max(each, 1)) for each in (slots, d, e)),
    )  # fmt: skip
