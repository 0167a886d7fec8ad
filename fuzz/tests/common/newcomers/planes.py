"""Further windows, gathers, sums by index, attention and rotations, as people write them, each with right kernels."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812


def ragged_avg_pool(x):
    return F.avg_pool1d(x, 3, stride=2, padding=1, count_include_pad=False)


def ragged_avg_pool_np(x):
    b, c, n = x.shape
    out = (n + 2 - 3) // 2 + 1
    y = np.empty((b, c, out), x.dtype)
    for o in range(out):
        lo, hi = max(2 * o - 1, 0), min(2 * o + 2, n)
        y[..., o] = x[..., lo:hi].sum(-1) / np.float32(hi - lo)
    return y


def ragged_avg_pool_unfold(x):
    ones = torch.ones_like(x[:1, :1])
    s = F.pad(x, (1, 1)).unfold(-1, 3, 2).sum(-1)
    return s / F.pad(ones, (1, 1)).unfold(-1, 3, 2).sum(-1)


def causal_depthwise(x, w, bias):
    c, k = w.shape
    y = F.conv1d(F.pad(x, (k - 1, 0)), w[:, None, :], bias, groups=c)
    return F.silu(y)


def causal_depthwise_shift(x, w, bias):
    b, c, n = x.shape
    acc = bias[None, :, None].expand(b, c, n).clone()
    for i in range(4):
        lag = 3 - i
        if lag < n:
            acc[..., lag:] += w[:, i, None] * x[..., : n - lag]
    return acc * torch.sigmoid(acc)


def causal_depthwise_np(x, w, bias):
    b, c, _n = x.shape
    k = w.shape[1]
    pad = np.concatenate([np.zeros((b, c, k - 1), x.dtype), x], -1)
    win = np.lib.stride_tricks.sliding_window_view(pad, k, axis=-1)
    y = np.einsum("bcnk,ck->bcn", win, w) + bias[:, None]
    with np.errstate(over="ignore"):
        return y / (1 + np.exp(-y))


def sobel_magnitude(img):
    gx = (img[:, :-2, 2:] + 2 * img[:, 1:-1, 2:] + img[:, 2:, 2:]) - (
        img[:, :-2, :-2] + 2 * img[:, 1:-1, :-2] + img[:, 2:, :-2]
    )
    gy = (img[:, 2:, :-2] + 2 * img[:, 2:, 1:-1] + img[:, 2:, 2:]) - (
        img[:, :-2, :-2] + 2 * img[:, :-2, 1:-1] + img[:, :-2, 2:]
    )
    return torch.sqrt(gx * gx + gy * gy + 1e-6)


def sobel_magnitude_conv(img):
    k = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=img.dtype)
    g = F.conv2d(img[:, None], torch.stack([k, k.T])[:, None])
    return (g.square().sum(1) + 1e-6).sqrt()


def sobel_magnitude_separable(img):
    d = img[:, :, 2:] - img[:, :, :-2]
    gx = d[:, :-2] + 2 * d[:, 1:-1] + d[:, 2:]
    v = img[:, 2:] - img[:, :-2]
    gy = v[:, :, :-2] + 2 * v[:, :, 1:-1] + v[:, :, 2:]
    return np.sqrt(gx * gx + gy * gy + np.float32(1e-6))


def weighted_bag(table, ids, w):
    return (table[ids] * w.unsqueeze(-1)).sum(dim=1)


def weighted_bag_bmm(table, ids, w):
    rows = F.embedding(ids, table)
    return torch.bmm(w[:, None, :], rows)[:, 0]


def weighted_bag_loop(table, ids, w):
    y = np.zeros((ids.shape[0], table.shape[1]), table.dtype)
    for j in range(ids.shape[1]):
        y += w[:, j, None] * table[ids[:, j]]
    return y


def weighted_bag_lib(table, ids, w):
    return F.embedding_bag(ids, table, mode="sum", per_sample_weights=w)


def segment_mean(x, seg, out):
    """Means of rows by segment; `out` only says how many segments there are."""
    total = torch.zeros_like(out).index_add(0, seg, x)
    count = torch.zeros_like(out[:, 0]).index_add(0, seg, torch.ones_like(x[:, 0]))
    return total / count.clamp(min=1).unsqueeze(-1)


def segment_mean_onehot(x, seg, out):
    hot = (seg[None, :] == torch.arange(out.shape[0])[:, None]).to(x.dtype)
    return hot @ x / hot.sum(1, keepdim=True).clamp_min(1)


def segment_mean_at(x, seg, out):
    y = np.zeros_like(out)
    np.add.at(y, seg, x)
    n = np.maximum(np.bincount(seg, minlength=out.shape[0]), 1)
    return y / n[:, None].astype(np.float32)


def alibi_attention(q, k, v):
    _h, s, d = q.shape
    i = torch.arange(s)
    slope = 0.25
    scores = q @ k.transpose(-1, -2) / math.sqrt(d) + slope * (i[None, :] - i[:, None])
    scores = scores.masked_fill(i[None, :] > i[:, None], float("-inf"))
    return torch.softmax(scores, -1) @ v


def alibi_attention_online(q, k, v):
    h, s, d = q.shape
    scale = 1 / math.sqrt(d)
    y = torch.empty(h, s, v.shape[-1], dtype=q.dtype)
    for i in range(0, s, 8):
        rows = torch.arange(i, min(i + 8, s))
        m = torch.full((h, len(rows), 1), -float("inf"))
        total = torch.zeros(h, len(rows), 1)
        acc = torch.zeros(h, len(rows), v.shape[-1])
        for j in range(0, min(i + 8, s), 4):
            cols = torch.arange(j, min(j + 4, s))
            if len(cols) == 0 or j > int(rows[-1]):
                break
            sc = torch.einsum("hid,hjd->hij", q[:, rows], k[:, cols]) * scale
            sc = sc - 0.25 * (rows[:, None] - cols[None, :])
            sc = torch.where(cols[None, :] <= rows[:, None], sc, -float("inf"))
            new = torch.maximum(m, sc.amax(-1, keepdim=True))
            p = torch.exp(sc - new)
            c = torch.exp(m - new)
            total = total * c + p.sum(-1, keepdim=True)
            acc = acc * c + p @ v[:, cols]
            m = new
        y[:, rows] = acc / total
    return y


def alibi_attention_sdpa(q, k, v):
    i = torch.arange(q.shape[1])
    bias = torch.where(i[:, None] >= i, 0.25 * (i - i[:, None]).to(q.dtype), -torch.inf)
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=bias)[0]


def linear_attention(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    kv = torch.einsum("bsd,bse->bde", k, v)
    z = 1 / (torch.einsum("bsd,bd->bs", q, k.sum(1)) + 1e-6)
    return torch.einsum("bsd,bde,bs->bse", q, kv, z)


def linear_attention_where(q, k, v):
    def feature(x):
        return torch.where(x > 0, x + 1, torch.exp(torch.clamp(x, max=0)))

    fq, fk = feature(q), feature(k)
    wide = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    out = fq @ (fk.mT @ wide)
    return out[..., :-1] / (out[..., -1:] + 1e-6)


def softcap_scores(q, k):
    s = torch.matmul(q, k.transpose(-2, -1)) * (q.shape[-1] ** -0.5)
    return torch.softmax(30.0 * torch.tanh(s / 30.0), dim=-1)


def softcap_scores_exp2(q, k):
    s = torch.einsum("...id,...jd->...ij", q * q.shape[-1] ** -0.5, k)
    c = torch.tanh(s * (1 / 30.0)) * (30.0 * math.log2(math.e))
    e = torch.exp2(c - c.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def rope_halves(x, cos, sin):
    x1, x2 = x.float().chunk(2, dim=-1)
    c, s = cos.float(), sin.float()
    return torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], dim=-1).to(x.dtype)


def rope_halves_complex(x, cos, sin):
    h = x.shape[-1] // 2
    z = torch.complex(x[..., :h].float(), x[..., h:].float()) * torch.complex(cos.float(), sin.float())
    return torch.cat([z.real, z.imag], -1).to(x.dtype)


def rope_halves_rotate(x, cos, sin):
    h = x.shape[-1] // 2
    f = x.float()
    rot = torch.cat([-f[..., h:], f[..., :h]], -1)
    c = torch.cat([cos, cos], -1).float()
    s = torch.cat([sin, sin], -1).float()
    return torch.addcmul(f * c, rot, s).to(x.dtype)
