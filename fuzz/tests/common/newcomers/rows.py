"""Further activations, norms, reductions, losses and a scan, as people write them, each with right kernels."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812


def squareplus(x, b=4.0):
    return 0.5 * (x + torch.sqrt(x * x + b))


def squareplus_rational(x):
    root = torch.sqrt(torch.addcmul(torch.full_like(x, 4.0), x, x))
    return torch.where(x >= 0, (x + root) * 0.5, 2.0 / (root - x))


def squareplus_hypot(x):
    two = np.float32(2)
    r = np.hypot(x, two)
    return np.where(x > 0, (x + r) / two, two / (r + np.abs(x)))


def serf(x):
    return x * torch.erf(F.softplus(x))


def serf_stable(x):
    sp = torch.clamp(x, min=0) + torch.log1p(torch.exp(-x.abs()))
    return torch.erf(sp) * x


def serf_logaddexp(x):
    return torch.mul(torch.special.erf(torch.logaddexp(x, torch.zeros_like(x))), x)


def sinlu(x, a, b):
    """Channelwise: (x + a sin(b x)) sigmoid(x)."""
    return (x + a[:, None] * torch.sin(b[:, None] * x)) * torch.sigmoid(x)


def sinlu_tanh(x, a, b):
    gate = 0.5 + 0.5 * torch.tanh(0.5 * x)
    wave = torch.sin(x * b.unsqueeze(-1))
    return torch.addcmul(x, a.unsqueeze(-1), wave) * gate


def sinlu_np(x, a, b):
    with np.errstate(over="ignore"):
        e = np.exp(-np.abs(x))
    s = np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)
    return (x + a[:, None] * np.sin(b[:, None] * x)) * s


def tanh_shrink(x):
    return x - torch.tanh(x)


def tanh_shrink_expm1(x):
    m = np.expm1(np.float32(-2) * np.abs(x))
    return x - np.copysign(-m / (np.float32(2) + m), x)


def log_cosh_loss(pred, target):
    d = pred - target
    return (d + F.softplus(-2.0 * d) - math.log(2.0)).mean()


def log_cosh_abs(pred, target):
    d = (pred - target).abs()
    return torch.sum(d + torch.log1p(torch.exp(-2 * d)) - math.log(2.0)) / d.numel()


def log_cosh_np(pred, target):
    d = np.abs(pred - target).ravel()
    v = d + np.log1p(np.exp(-2 * d)) - np.float32(math.log(2.0))
    return np.asarray(np.sum(v, dtype=np.float64) / d.size).astype(np.float32)


def group_rms(x, w):
    b, d = x.shape
    g = x.reshape(b, 4, d // 4)
    g = g / torch.sqrt(g.pow(2).mean(dim=2, keepdim=True) + 1e-5)
    return g.reshape(b, d) * w


def group_rms_einsum(x, w):
    b, d = x.shape
    g = x.view(b, 4, -1)
    r = torch.rsqrt(torch.einsum("bgi,bgi->bg", g, g) / g.shape[-1] + 1e-5)
    return (g * r[..., None] * w.view(4, -1)).view(b, d)


def group_rms_loops(x, w):
    b, d = x.shape
    h = d // 4
    y = np.empty_like(x)
    for g in range(4):
        s = slice(g * h, (g + 1) * h)
        ss = np.zeros(b, np.float32)
        for i in range(g * h, (g + 1) * h):
            ss += x[:, i] * x[:, i]
        y[:, s] = x[:, s] * (np.float32(1) / np.sqrt(ss / np.float32(h) + np.float32(1e-5)))[:, None] * w[s]
    return y


def plane_norm(x):
    """Instance norm of planes."""
    mu = x.mean(dim=(2, 3), keepdim=True)
    var = x.var(dim=(2, 3), unbiased=False, keepdim=True)
    return (x - mu) / torch.sqrt(var + 1e-5)


def plane_norm_var_mean(x):
    var, mu = torch.var_mean(x.flatten(2), dim=-1, correction=0)
    return torch.sub(x, mu[..., None, None]) * torch.rsqrt(var + 1e-5)[..., None, None]


def plane_norm_welford(x):
    b, c, h, w = x.shape
    rows = x.reshape(b, c, h * w)
    mean = np.zeros((b, c), np.float32)
    m2 = np.zeros((b, c), np.float32)
    for i in range(h * w):
        d = rows[..., i] - mean
        mean += d / np.float32(i + 1)
        m2 += d * (rows[..., i] - mean)
    r = np.float32(1) / np.sqrt(m2 / np.float32(h * w) + np.float32(1e-5))
    return ((rows - mean[..., None]) * r[..., None]).reshape(x.shape)


def plane_norm_lib(x):
    return F.instance_norm(x, eps=1e-5) if x.shape[2] * x.shape[3] > 1 else torch.zeros_like(x)


def standardised_linear(x, w):
    m = w.mean(1, keepdim=True)
    s = w.std(1, keepdim=True)
    return x @ ((w - m) / (s + 1e-4)).t()


def standardised_linear_rows(x, w):
    c = w - w.sum(1, keepdim=True) / w.shape[1]
    s = (c.square().sum(1) / (w.shape[1] - 1)).sqrt() + 1e-4
    return F.linear(x, c) / s


def gem_pool(x, p=3.0):
    return x.clamp(min=1e-6).pow(p).mean(dim=(-2, -1)).pow(1.0 / p)


def gem_cbrt(x):
    v = np.maximum(x, np.float32(1e-6))
    return np.cbrt((v * v * v).mean(axis=(2, 3)))


def gem_two_steps(x):
    v = torch.clamp_min(x, 1e-6)
    v = (v * v * v).mean(-1).mean(-1)
    return torch.exp2(torch.log2(v) / 3)


def log_mean_exp(x):
    return torch.logsumexp(x, dim=1) - math.log(x.shape[1])


def log_mean_exp_online(x):
    top = np.full(x.shape[0], -np.inf, np.float32)
    acc = np.zeros(x.shape[0], np.float32)
    for i in range(0, x.shape[1], 16):
        t = x[:, i : i + 16]
        new = np.maximum(top, t.max(1))
        acc = acc * np.exp(top - new) + np.exp(t - new[:, None]).sum(1)
        top = new
    return top + np.log(acc / np.float32(x.shape[1]))


def log_mean_exp_mean(x):
    m = x.amax(1)
    return m + (x - m[:, None]).exp().mean(1).log()


def ewma(x):
    h = x[:, 0]
    out = [h]
    for t in range(1, x.shape[1]):
        h = 0.9 * h + 0.1 * x[:, t]
        out.append(h)
    return torch.stack(out, 1)


def ewma_loop(x):
    y = np.empty_like(x)
    y[:, 0] = x[:, 0]
    for t in range(1, x.shape[1]):
        y[:, t] = np.float32(0.1) * x[:, t] + np.float32(0.9) * y[:, t - 1]
    return y


def ewma_blocks(x):
    n = x.shape[1]
    i = torch.arange(8, dtype=torch.float64)
    k = torch.tril(0.9 ** (i[:, None] - i[None, :]).clamp(min=0)).to(x.dtype)
    carry = (0.9 ** (i + 1)).to(x.dtype)
    y = torch.empty_like(x)
    u = x * 0.1
    h = None
    for s in range(0, n, 8):
        e = min(s + 8, n)
        if h is None:
            block = u[:, s:e].clone()
            block[:, 0] = x[:, 0]
            y[:, s:e] = block @ k[: e - s, : e - s].T
        else:
            y[:, s:e] = u[:, s:e] @ k[: e - s, : e - s].T + h[:, None] * carry[: e - s]
        h = y[:, e - 1]
    return y


def softmax_entropy(logits):
    p = F.softmax(logits, -1)
    return -(p * F.log_softmax(logits, -1)).sum(-1)


def softmax_entropy_moment(logits):
    z = logits - logits.max(-1, keepdims=True)
    e = np.exp(z)
    s = e.sum(-1)
    return np.log(s) - (z * e).sum(-1) / s


def kl_of_logits(student, teacher):
    """Distillation at temperature 2, batchmean."""
    heat = 2.0
    s = F.log_softmax(student / heat, dim=-1)
    t = F.softmax(teacher / heat, dim=-1)
    return F.kl_div(s, t, reduction="batchmean") * heat * heat


def kl_of_logits_two_lse(student, teacher):
    a, b = student * 0.5, teacher * 0.5
    ls = a - torch.logsumexp(a, -1, keepdim=True)
    lt = b - torch.logsumexp(b, -1, keepdim=True)
    return 4.0 * (lt.exp() * (lt - ls)).sum() / student.shape[0]


def kl_of_logits_log_target(student, teacher):
    s = torch.log_softmax(student / 2, -1)
    t = torch.log_softmax(teacher / 2, -1)
    return 4 * F.kl_div(s, t, reduction="sum", log_target=True) / s.shape[0]


def smooth_l1_beta(x, y, beta=0.5):
    d = (x - y).abs()
    return torch.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta).mean(dim=-1)


def smooth_l1_min(x, y):
    d = np.abs(x - y)
    q = np.minimum(d, np.float32(0.5))
    return (q * (d - q / 2) * 2).mean(-1)


def smooth_l1_lib(x, y):
    return F.smooth_l1_loss(x, y, beta=0.5, reduction="none").sum(-1) / x.shape[-1]


def gaussian_nll(mu, logvar, t):
    return 0.5 * (logvar + (t - mu) ** 2 / torch.exp(logvar)).sum(-1)


def gaussian_nll_mul(mu, logvar, t):
    d = (t - mu) * torch.exp(-0.5 * logvar)
    return 0.5 * (d * d + logvar).sum(-1)


def gaussian_nll_np(mu, logvar, t):
    inv = np.exp(-logvar)
    d = t - mu
    return (np.float32(0.5) * logvar + np.float32(0.5) * d * d * inv).sum(-1)


def dice_loss(logits, target):
    p = torch.sigmoid(logits).flatten(1)
    t = target.flatten(1)
    inter = (p * t).sum(1)
    return (1 - (2 * inter + 1.0) / (p.sum(1) + t.sum(1) + 1.0)).mean()


def dice_loss_diff(logits, target):
    p = torch.special.expit(logits).reshape(logits.shape[0], -1)
    t = target.reshape(logits.shape[0], -1)
    num = 2 * torch.einsum("bi,bi->b", p, t) + 1
    return 1 - (num / ((p + t).sum(1) + 1)).mean()


def min_max_scale(x):
    lo = x.min(dim=-1, keepdim=True).values
    hi = x.max(dim=-1, keepdim=True).values
    return (x - lo) / (hi - lo + 1e-8)


def min_max_scale_inv(x):
    lo, hi = torch.aminmax(x, dim=-1, keepdim=True)
    inv = torch.reciprocal(hi - lo + 1e-8)
    return (x - lo) * inv


def min_max_scale_np(x):
    lo, hi = np.amin(x, -1, keepdims=True), np.amax(x, -1, keepdims=True)
    return (x - lo) / ((hi - lo) + np.float32(1e-8))


def swiglu_half(gate, up):
    return (F.silu(gate.float()) * up.float()).to(gate.dtype)


def swiglu_half_tanh(gate, up):
    g = gate.float()
    h = 0.5 * g
    return (torch.addcmul(h, h, torch.tanh(h)) * up.float()).to(up.dtype)


def swiglu_half_exp2(gate, up):
    g, u = gate.float(), up.float()
    return (g * u / (1 + torch.exp2(g * -1.4426950408889634))).type_as(gate)


def add_rms(x, res, w):
    h = x + res
    y = h.float() * torch.rsqrt(h.float().pow(2).mean(-1, keepdim=True) + 1e-6)
    return (y * w.float()).to(x.dtype), h


def add_rms_fused(x, res, w):
    h = (x.float() + res.float()).to(x.dtype)
    f = h.float()
    n = f.shape[-1]
    ss = torch.linalg.vector_norm(f, dim=-1, keepdim=True).square()
    return (f / torch.sqrt(ss / n + 1e-6) * w.float()).to(x.dtype), h


def masked_mean(x, lengths):
    keep = torch.arange(x.shape[1])[None, :] < lengths[:, None]
    total = torch.where(keep, x, 0.0).sum(1)
    return total / keep.sum(1).clamp(min=1)


def masked_mean_np(x, lengths):
    keep = np.arange(x.shape[1]) < lengths[:, None]
    return ((x * keep).sum(1) / np.maximum(keep.sum(1), 1)).astype(x.dtype)


def gated_halves(x):
    a, g = x.chunk(2, dim=-1)
    return a * F.gelu(g)


def gated_halves_erfc(x):
    h = x.shape[-1] // 2
    g = x[..., h:]
    return x[..., :h] * g * (0.5 * torch.special.erfc(g * -math.sqrt(0.5)))


def column_softmax(x):
    return torch.softmax(x / 0.7, dim=1)


def column_softmax_moved(x):
    z = np.moveaxis(x, 1, -1)
    z = (z - z.max(-1, keepdims=True)) / np.float32(0.7)
    e = np.exp(z)
    return np.moveaxis(e / e.sum(-1, keepdims=True), -1, 1)
