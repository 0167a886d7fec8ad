"""Activations, norms, optimisers' steps and quantisation, as people write them, each with right kernels."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812


def swish(x, b):
    """y = x sigmoid(b x), with one b for each channel."""
    return x * torch.sigmoid(b * x)


def swish_numpy(x, b):
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-(b * x)))


def mish(x):
    return x * torch.tanh(F.softplus(x))


def mish_rational(x):
    e = np.exp(np.minimum(x, 20))
    t = e * (e + 2)
    return np.where(x > 20, x, x * (t / (t + 2)))


def mish_torch(x):
    return F.mish(x)


def hardswish(x):
    return x * np.clip(x + 3, 0, 6) / 6


def hardswish_torch(x):
    return x * F.relu6(x + 3) * (1 / 6)


def geglu(x, g):
    """The tanh form of gelu gates x."""
    return x * F.gelu(g, approximate="tanh")


def geglu_sigmoid(x, g):
    u = np.float32(0.7978845608) * (g + np.float32(0.044715) * g * g * g)
    with np.errstate(over="ignore"):
        return x * (g / (1 + np.exp(-2 * u)))


def gemma_norm(x, w):
    h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    return h * (1.0 + w)


def gemma_norm_numpy(x, w):
    size = np.sqrt(np.einsum("...n,...n->...", x, x) / np.float32(x.shape[-1]) + np.float32(1e-6))
    return x / size[..., None] * (1 + w)


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b, 1e-5)


def layer_norm_numpy(x, w, b):
    apart = x - x.mean(-1, keepdims=True)
    return apart / np.sqrt(np.square(apart).mean(-1, keepdims=True) + np.float32(1e-5)) * w + b


def group_norm(x, w, b):
    return F.group_norm(x, 2, w, b)


def group_norm_views(x, w, b):
    grouped = x.reshape(x.shape[0], 2, -1)
    var, mean = torch.var_mean(grouped, dim=-1, keepdim=True, correction=0)
    return ((grouped - mean) / torch.sqrt(var + 1e-5)).reshape(x.shape) * w[:, None] + b[:, None]


def group_norm_numpy(x, w, b):
    half = x.shape[1] // 2
    y = np.empty_like(x)
    for start in (0, half):
        part = x[:, start : start + half]
        apart = part - part.mean((1, 2), keepdims=True)
        y[:, start : start + half] = apart / np.sqrt((apart * apart).mean((1, 2), keepdims=True) + np.float32(1e-5))
    return y * w[None, :, None] + b[None, :, None]


def unit_rows(x):
    return F.normalize(x, dim=-1)


def unit_rows_numpy(x):
    return x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), 1e-12)


def batch_norm(x, mean, var, w, b):
    return F.batch_norm(x, mean, var, w, b)


def batch_norm_numpy(x, mean, var, w, b):
    return (x - mean) / np.sqrt(var + np.float32(1e-5)) * w + b


def adamw(p, g, m, v):
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    p = p * (1 - 1e-3 * 0.01) - 1e-3 * m / (torch.sqrt(v) + 1e-8)
    return p, m, v


def adamw_torch(p, g, m, v):
    m, v = m.clone(), v.clone()
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    return torch.addcdiv(p * (1 - 1e-5), m, v.sqrt().add_(1e-8), value=-1e-3), m, v


def nesterov(p, g, buf):
    g = g + 1e-4 * p
    buf = 0.9 * buf + g
    return p - 0.1 * (g + 0.9 * buf), buf


def nesterov_numpy(p, g, buf):
    decayed = p * np.float32(1e-4) + g
    new = np.float32(0.9) * buf + decayed
    step = decayed + np.float32(0.9) * new
    return p - np.float32(0.1) * step, new


def lion(p, g, m):
    update = torch.sign(0.9 * m + 0.1 * g)
    return p - 1e-4 * update, 0.99 * m + 0.01 * g


def lion_numpy(p, g, m):
    c = m * np.float32(0.9) + g * np.float32(0.1)
    return p - np.float32(1e-4) * np.sign(c), m * np.float32(0.99) + g * np.float32(0.01)


def lion_lerp(p, g, m):
    return p.add(torch.lerp(g, m, 0.9).sign_(), alpha=-1e-4), torch.lerp(m, g, 0.01)


def quantise(x):
    """Codes of 8 bits with one scale for each row."""
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
    return torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale


def quantise_numpy(x):
    scale = np.maximum(np.max(np.abs(x), axis=-1, keepdims=True), np.float32(1e-8)) / 127
    return np.rint(x / scale).astype(np.int8), scale


def dequantise(q, scale):
    """One scale for each group of 32 codes."""
    return (q.unflatten(-1, (-1, 32)).float() * scale[..., None]).flatten(-2)


def dequantise_numpy(q, scale):
    return q * np.repeat(scale, 32, axis=-1)


def clip_norm(g):
    """The gradient, scaled to a norm of at most 1."""
    norm = torch.sqrt((g * g).sum())
    return g * torch.clamp(1.0 / (norm + 1e-6), max=1.0)


def clip_norm_numpy(g):
    norm = np.sqrt(np.vdot(g, g))
    return g * np.minimum(np.float32(1), 1 / (norm + np.float32(1e-6)))


def timestep(t):
    """The sinusoidal embedding of the steps of a diffusion, 32 numbers for each."""
    freq = torch.exp(-torch.arange(16) * (9.210340371976184 / 16))
    angle = t[:, None] * freq
    return torch.cat([torch.sin(angle), torch.cos(angle)], -1)


FREQ = (10000.0 ** (-np.arange(16) / 16)).astype(np.float32)


def timestep_numpy(t):
    angle = np.outer(t, FREQ)
    return np.hstack((np.sin(angle), np.cos(angle)))


def timestep_torch(t):
    angle = t[:, None] * torch.from_numpy(FREQ)
    return torch.stack((angle.sin(), angle.cos()), 1).flatten(1)
