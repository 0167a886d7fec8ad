"""Codes, choices by order, distances, spectra and patches, as people write them, each with right kernels."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812


def row_codes(x):
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127.0
    q = torch.clamp(torch.round(x / scale), -127, 127).to(torch.int8)
    return q, scale


def row_codes_inv(x):
    top = torch.maximum(x.amax(-1, keepdim=True), -x.amin(-1, keepdim=True)).clamp_min(1e-8)
    q = (x * (127.0 / top)).round().clamp(-127, 127).to(torch.int8)
    return q, top / 127.0


def row_codes_np(x):
    scale = np.maximum(np.abs(x).max(-1, keepdims=True), np.float32(1e-8)) * np.float32(1 / 127)
    q = np.clip(np.rint(x / scale), -127, 127).astype(np.int8)
    return q, scale


def int8_linear(a, b, sa, sb):
    return (a.float() @ b.float().t()) * sa[:, None] * sb[None, :]


def int8_linear_int32(a, b, sa, sb):
    acc = np.matmul(a.astype(np.int32), b.astype(np.int32).T)
    return acc.astype(np.float32) * (sa[:, None] * sb[None, :])


def int8_linear_tiles(a, b, sa, sb):
    acc = torch.zeros(a.shape[0], b.shape[0], dtype=torch.int64)
    for j in range(0, a.shape[1], 32):
        acc += a[:, j : j + 32].long() @ b[:, j : j + 32].long().T
    return acc.float() * sb * sa.unsqueeze(1)


def moe_gates(logits):
    p = F.softmax(logits, dim=-1)
    w, idx = torch.topk(p, 2, dim=-1)
    return w / w.sum(-1, keepdim=True), idx


def moe_gates_topk_first(logits):
    top, idx = logits.topk(2, dim=-1)
    return torch.softmax(top, -1), idx


def up2_linear(x):
    return F.interpolate(x, scale_factor=2, mode="linear", align_corners=False)


def up2_linear_taps(x):
    left = np.concatenate([x[..., :1], x[..., :-1]], -1)
    right = np.concatenate([x[..., 1:], x[..., -1:]], -1)
    y = np.empty((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    y[..., 0::2] = np.float32(0.25) * left + np.float32(0.75) * x
    y[..., 1::2] = np.float32(0.75) * x + np.float32(0.25) * right
    return y


def up2_linear_conv(x):
    b, c, n = x.shape
    p = torch.cat([x[..., :1], x, x[..., -1:]], -1)
    k = torch.tensor([[[0.25, 0.75, 0.0]], [[0.0, 0.75, 0.25]]], dtype=x.dtype)
    y = F.conv1d(p.reshape(b * c, 1, n + 2), k)
    return y.transpose(1, 2).reshape(b, c, 2 * n)


def pairwise_distance(a, b):
    return (a[:, None, :] - b[None, :, :]).pow(2).sum(-1).sqrt()


def pairwise_distance_loop(a, b):
    acc = np.zeros((a.shape[0], b.shape[0]), np.float32)
    for i in range(a.shape[1]):
        d = a[:, i, None] - b[None, :, i]
        acc += d * d
    return np.sqrt(acc)


def pairwise_distance_cdist(a, b):
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def cosine_matrix(a, b):
    return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T


def cosine_matrix_late(a, b):
    na = np.sqrt((a * a).sum(-1))
    nb = np.sqrt((b * b).sum(-1))
    return (a @ b.T) / np.maximum(na, np.float32(1e-12))[:, None] / np.maximum(nb, np.float32(1e-12))


def power_spectrum(x):
    return torch.fft.rfft(x, dim=-1).abs().square() / x.shape[-1]


def power_spectrum_np(x):
    z = np.fft.rfft(x, axis=-1)
    return ((z.real**2 + z.imag**2) / x.shape[-1]).astype(x.dtype)


def power_spectrum_dft(x):
    n = x.shape[-1]
    ang = 2 * math.pi / n * (torch.outer(torch.arange(n), torch.arange(n // 2 + 1)) % n).double()
    re = x @ torch.cos(ang).to(x.dtype)
    im = x @ torch.sin(ang).to(x.dtype)
    return torch.addcmul(re * re, im, im) / n


def complex_gate(zr, zi, wr, wi):
    """|z w| and the real part of z conj(w)."""
    z = torch.view_as_complex(torch.stack([zr, zi], -1))
    w = torch.view_as_complex(torch.stack([wr, wi], -1))
    return (z * w).abs(), (z * w.conj()).real


def complex_gate_parts(zr, zi, wr, wi):
    return np.hypot(zr, zi) * np.hypot(wr, wi), zr * wr + zi * wi


def info_nce(a, b):
    a = a / a.norm(dim=1, keepdim=True).clamp_min(1e-6)
    b = b / b.norm(dim=1, keepdim=True).clamp_min(1e-6)
    logits = a @ b.t() / 0.1
    return F.cross_entropy(logits, torch.arange(a.shape[0]))


def info_nce_tiles(a, b):
    a = F.normalize(a, eps=1e-6)
    b = F.normalize(b, eps=1e-6)
    n = a.shape[0]
    total = torch.zeros(())
    for i in range(0, n, 4):
        s = a[i : i + 4] @ b.T * 10.0
        total = total + (torch.logsumexp(s, 1) - s[torch.arange(s.shape[0]), torch.arange(i, i + s.shape[0])]).sum()
    return total / n


def total_variation(x):
    dh = (x[..., 1:, :] - x[..., :-1, :]).abs().sum(dim=(1, 2, 3))
    dw = (x[..., :, 1:] - x[..., :, :-1]).abs().sum(dim=(1, 2, 3))
    return dh + dw


def total_variation_diff(x):
    b = x.shape[0]
    return np.abs(np.diff(x, axis=2)).reshape(b, -1).sum(1) + np.abs(np.diff(x, axis=3)).reshape(b, -1).sum(1)


def total_variation_max(x):
    def span(d):
        return (torch.maximum(d[0], d[1]) - torch.minimum(d[0], d[1])).flatten(1).sum(1)

    return span((x[:, :, 1:], x[:, :, :-1])) + span((x[:, :, :, 1:], x[:, :, :, :-1]))


def patchify(x):
    b, c, h, w = x.shape
    p = x.reshape(b, c, h // 2, 2, w // 2, 2)
    return p.permute(0, 2, 4, 1, 3, 5).reshape(b, (h // 2) * (w // 2), c * 4)


def patchify_unfold(x):
    return F.unfold(x, 2, stride=2).transpose(1, 2)


def patchify_slices(x):
    b, c, h, w = x.shape
    q = np.stack([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)], -1)
    return np.ascontiguousarray(np.moveaxis(q, 1, 3).reshape(b, (h // 2) * (w // 2), c * 4))


def hit_rate(scores, labels):
    return (scores.argmax(dim=-1) == labels).float().mean()


def hit_rate_gather(scores, labels):
    return (scores.max(1).indices == labels).sum() / scores.new_tensor(len(labels))


def smoothed_nll(logits, target):
    lp = torch.log_softmax(logits, dim=-1)
    nll = -lp.gather(1, target.unsqueeze(1)).squeeze(1)
    return (0.9 * nll - 0.1 * lp.mean(dim=-1)).mean()


def smoothed_nll_lib(logits, target):
    return F.cross_entropy(logits, target, label_smoothing=0.1)


def smoothed_nll_lse(logits, target):
    m = logits.max(1, keepdims=True)
    z = logits - m
    lse = np.log(np.exp(z).sum(1))
    picked = z[np.arange(len(target)), target]
    return np.mean(lse - np.float32(0.9) * picked - np.float32(0.1) * z.mean(1))
