"""Attention, convolutions, pooling, gathers and scans, as people write them, each with right kernels."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812


def causal_attention(q, k, v):
    s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    later = torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(s.masked_fill(later, float("-inf")), -1) @ v


def causal_attention_torch(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def causal_attention_rows(q, k, v):
    y = np.empty(q.shape[:-1] + v.shape[-1:], np.float32)
    scale = np.float32(q.shape[-1] ** -0.5)
    for t in range(q.shape[-2]):
        s = np.einsum("...d,...td->...t", q[..., t, :] * scale, k[..., : t + 1, :])
        e = np.exp(s - s.max(-1, keepdims=True))
        y[..., t, :] = np.einsum("...t,...td->...d", e, v[..., : t + 1, :]) / e.sum(-1, keepdims=True)
    return y


def padded_attention(q, k, v, keep):
    s = torch.einsum("bid,bjd->bij", q, k) * q.shape[-1] ** -0.5
    s = s.masked_fill(~keep[:, None, :], -1e9)
    return torch.einsum("bij,bjd->bid", s.softmax(-1), v)


def padded_attention_numpy(q, k, v, keep):
    s = np.where(keep[:, None], (q @ k.swapaxes(1, 2)) * np.float32(q.shape[-1] ** -0.5), np.float32(-1e9))
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e @ v) / e.sum(-1, keepdims=True)


def padded_attention_torch(q, k, v, keep):
    bias = torch.where(keep, 0.0, -1e9)[:, None, :].expand(-1, q.shape[1], -1)
    s = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
    s = torch.where(keep[:, None, :], s, torch.full_like(s, -1e9))
    return torch.bmm(torch.softmax(s, -1), v)


def window_attention(q, k, v):
    """Each place attends to itself and the three before it."""
    n = q.shape[0]
    i, j = torch.arange(n)[:, None], torch.arange(n)[None]
    s = (q @ k.T) * 0.125
    s = torch.where((j <= i) & (i - j < 4), s, float("-inf"))
    return torch.softmax(s, -1) @ v


def window_attention_numpy(q, k, v):
    y = np.empty_like(v)
    for i in range(len(q)):
        near = slice(max(0, i - 3), i + 1)
        s = k[near] @ q[i] * np.float32(0.125)
        p = np.exp(s - s.max())
        y[i] = (p / p.sum()) @ v[near]
    return y


def linear_attention(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    s = torch.cumsum(k[:, :, None] * v[:, None, :], 0)
    z = torch.cumsum(k, 0)
    return torch.einsum("td,tde->te", q, s) / (q * z).sum(-1, keepdim=True)


def linear_attention_numpy(q, k, v):
    def phi(x):
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    q, k = phi(q), phi(k)
    s, z = np.zeros((k.shape[1], v.shape[1]), np.float32), np.zeros(k.shape[1], np.float32)
    y = np.empty_like(v)
    for t in range(len(q)):
        s += np.outer(k[t], v[t])
        z += k[t]
        y[t] = q[t] @ s / (q[t] @ z)
    return y


def linear_attention_masked(q, k, v):
    q, k = torch.where(q > 0, q + 1, q.exp()), torch.where(k > 0, k + 1, k.exp())
    a = torch.tril(q @ k.T)
    return (a @ v) / a.sum(-1, keepdim=True)


def alibi(s, slope):
    """A softmax of scores, less a slope times the distance, one slope for each head."""
    far = (torch.arange(s.shape[-2])[:, None] - torch.arange(s.shape[-1])).abs()
    return torch.softmax(s - slope[:, None, None] * far, -1)


def alibi_numpy(s, slope):
    i, j = (np.arange(n, dtype=np.float32) for n in s.shape[1:])
    z = s - slope[:, None, None] * np.abs(i[:, None] - j)
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def max_pool(x):
    return F.max_pool2d(x, 2)


def max_pool_numpy(x):
    h, w = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
    x = x[..., :h, :w]
    return np.maximum(
        np.maximum(x[..., ::2, ::2], x[..., 1::2, ::2]), np.maximum(x[..., ::2, 1::2], x[..., 1::2, 1::2])
    )


def smooth(x):
    """The mean of each element and its neighbours."""
    return F.avg_pool1d(x, 3, 1, 1, count_include_pad=False)


def smooth_numpy(x):
    y, count = x.copy(), np.ones(x.shape[-1], np.float32)
    y[..., 1:] += x[..., :-1]
    y[..., :-1] += x[..., 1:]
    count[1:] += 1
    count[:-1] += 1
    return y / count


def short_conv(x, w):
    """A causal convolution of each channel, as before a state space model."""
    return F.conv1d(F.pad(x, (3, 0)), w[:, None], groups=x.shape[1])


def short_conv_numpy(x, w):
    y = w[:, 3:] * x
    for back in (1, 2, 3):
        y[..., back:] += w[:, 3 - back, None] * x[..., : x.shape[-1] - back]
    return y


def conv2d(x, w, b):
    return F.conv2d(x, w, b, padding=1)


def conv2d_numpy(x, w, b):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("bchwij,ocij->bohw", windows, w, optimize=True) + b[:, None, None]


def conv2d_unfold(x, w, b):
    columns = F.unfold(x, 3, padding=1)
    return (w.flatten(1) @ columns + b[:, None]).unflatten(-1, x.shape[-2:])


def embed(ids, table):
    return F.embedding(ids, table) * table.shape[1] ** 0.5


def embed_numpy(ids, table):
    return np.take(table * np.float32(table.shape[1] ** 0.5), ids, axis=0)


def bag(ids, table):
    return table[ids].mean(1)


def bag_numpy(ids, table):
    counts = np.zeros((ids.shape[0], table.shape[0]), np.float32)
    np.add.at(counts, (np.arange(len(ids))[:, None], ids), 1)
    return counts @ table / np.float32(ids.shape[1])


def pick(x, index):
    return torch.gather(x, 1, index)


def pick_numpy(x, index):
    return np.take_along_axis(x, index, 1)


def combine(base, index, rows):
    """Rows that are added to those of a base at their indices."""
    return base.index_add(0, index, rows)


def combine_numpy(base, index, rows):
    y = base.copy()
    np.add.at(y, index, rows)
    return y


def combine_matrix(base, index, rows):
    chosen = F.one_hot(index, base.shape[0]).to(base.dtype)
    return base + chosen.T @ rows


def average(x, a):
    """The exponential moving average along t."""
    h, ys = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = a[:, t] * h + (1 - a[:, t]) * x[:, t]
        ys.append(h)
    return torch.stack(ys, 1)


def average_numpy(x, a):
    y = (1 - a) * x
    for t in range(1, x.shape[1]):
        y[:, t] += a[:, t] * y[:, t - 1]
    return y


def running_mean(x):
    return x.cumsum(-1) / torch.arange(1, x.shape[-1] + 1)


def running_mean_numpy(x):
    y = np.add.accumulate(x, axis=-1)
    y /= np.arange(1, x.shape[-1] + 1, dtype=np.float32)
    return y


def running_mean_blocks(x):
    n = x.shape[-1]
    blocks = F.pad(x, (0, -n % 16)).unflatten(-1, (-1, 16))
    inside = blocks.cumsum(-1)
    before = F.pad(inside[..., -1].cumsum(-1)[..., :-1], (1, 0))
    return (inside + before[..., None]).flatten(-2)[..., :n] / torch.arange(1.0, n + 1)


def selective_scan(x, dt, a, b, c):
    """A state space model whose step and matrices depend on the place."""
    h, ys = torch.zeros_like(a), []
    for t in range(x.shape[0]):
        h = torch.exp(dt[t][:, None] * a) * h + (dt[t] * x[t])[:, None] * b[t]
        ys.append((h * c[t]).sum(-1))
    return torch.stack(ys)


def selective_scan_numpy(x, dt, a, b, c):
    decay = np.exp(np.einsum("td,dn->tdn", dt, a))
    grown = (dt * x)[:, :, None] * b[:, None, :]
    h = np.zeros_like(a)
    y = np.empty_like(x)
    for t in range(len(x)):
        h = decay[t] * h + grown[t]
        y[t] = h @ c[t]
    return y


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def rope_numpy(x, cos, sin):
    half = x.shape[-1] // 2
    turned = np.concatenate((-x[..., half:], x[..., :half]), -1)
    return x * np.concatenate((cos, cos), -1) + turned * np.concatenate((sin, sin), -1)


def upsample(x):
    """Each element, and the middle between it and the next one."""
    middle = (x[..., :-1] + x[..., 1:]) / 2
    return torch.cat([torch.stack([x[..., :-1], middle], -1).flatten(-2), x[..., -1:]], -1)


def upsample_numpy(x):
    y = np.empty((*x.shape[:-1], 2 * x.shape[-1] - 1), np.float32)
    y[..., ::2] = x
    y[..., 1::2] = np.float32(0.5) * x[..., 1:] + np.float32(0.5) * x[..., :-1]
    return y


def swiglu(x, gate, up):
    return F.silu(x @ gate) * (x @ up)


def swiglu_torch(x, gate, up):
    g, u = (x @ torch.cat([gate, up], 1)).chunk(2, 1)
    return g / (1 + torch.exp(-g)) * u


def swiglu_numpy(x, gate, up):
    g = np.dot(x, gate)
    with np.errstate(over="ignore"):
        return np.dot(x, up) * g * (1 / (1 + np.exp(-g)))
