"""Losses, statistics and gates, as people write them, each with right kernels."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812


def token_loss(logits, target):
    """The cross entropy of each token; those of the label -100 do not count."""
    return F.cross_entropy(logits, target, reduction="none", ignore_index=-100)


def token_loss_numpy(logits, target):
    below = logits - logits.max(1, keepdims=True)
    lse = np.log(np.exp(below).sum(1))
    here = np.where(target == -100, 0, target)
    picked = np.take_along_axis(below, here[:, None], 1)[:, 0]
    return np.where(target == -100, np.float32(0), lse - picked)


def smoothed(logits, target):
    return F.cross_entropy(logits, target, label_smoothing=0.1)


def smoothed_numpy(logits, target):
    top = logits.max(1, keepdims=True)
    logp = logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))
    own = logp[np.arange(len(target)), target]
    return -(np.float32(0.9) * own + np.float32(0.1) * logp.mean(1)).mean()


def smoothed_torch(logits, target):
    logp = torch.log_softmax(logits, 1)
    nll = -logp.gather(1, target[:, None])[:, 0]
    return 0.9 * nll.mean() - 0.1 * logp.mean(1).mean()


def bce(x, t):
    return F.binary_cross_entropy_with_logits(x, t)


def bce_numpy(x, t):
    return (np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x)))).mean()


def kl(p, q):
    """The divergence of two softmaxes, of each row."""
    lp, lq = F.log_softmax(p, -1), F.log_softmax(q, -1)
    return (lp.exp() * (lp - lq)).sum(-1)


def kl_numpy(p, q):
    def logs(x):
        below = x - x.max(-1, keepdims=True)
        return below - np.log(np.exp(below).sum(-1, keepdims=True))

    lp, lq = logs(p), logs(q)
    return np.einsum("...n,...n->...", np.exp(lp), lp - lq)


def kl_torch(p, q):
    lp = p - torch.logsumexp(p, -1, keepdim=True)
    lq = q - torch.logsumexp(q, -1, keepdim=True)
    return F.kl_div(lq, lp, reduction="none", log_target=True).sum(-1)


def huber(x, t):
    d = np.abs(x - t)
    return np.where(d < 1, 0.5 * d * d, d - 0.5).mean()


def huber_torch(x, t):
    return F.smooth_l1_loss(x, t)


def focal(x, t):
    p = torch.sigmoid(x)
    ce = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    pt = p * t + (1 - p) * (1 - t)
    return ce * (1 - pt) ** 2


def focal_numpy(x, t):
    with np.errstate(over="ignore"):
        p = 1 / (1 + np.exp(-x))
    ce = np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0) - x * t
    away = 1 - (p * t + (1 - p) * (1 - t))
    return ce * away * away


def triplet(a, p, n):
    near = torch.sqrt(((a - p) ** 2).sum(-1))
    far = torch.sqrt(((a - n) ** 2).sum(-1))
    return torch.relu(near - far + 1.0)


def triplet_numpy(a, p, n):
    return np.maximum(np.linalg.norm(a - p, axis=-1) - np.linalg.norm(a - n, axis=-1) + 1, 0)


def entropy(x):
    p = torch.softmax(x, -1)
    return -(p * torch.log_softmax(x, -1)).sum(-1)


def entropy_numpy(x):
    below = x - x.max(-1, keepdims=True)
    e = np.exp(below)
    total = e.sum(-1)
    return np.log(total) - (e * below).sum(-1) / total


def columns(x):
    """The mean and the standard deviation of each column."""
    mean = x.mean(0)
    return mean, np.sqrt(((x - mean) ** 2).sum(0) / (x.shape[0] - 1))


def columns_torch(x):
    std, mean = torch.std_mean(x, 0)
    return mean, std


def lse(x):
    return torch.logsumexp(x, -1)


def lse_numpy(x):
    top = x.max(-1)
    return np.log(np.exp(x - top[..., None]).sum(-1)) + top


def mean_pool(h, mask):
    """The mean of those tokens that the mask keeps."""
    return (h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1e-9)


def mean_pool_numpy(h, mask):
    return np.matmul(mask[:, None, :], h)[:, 0] / np.maximum(mask.sum(1), 1e-9)[:, None]


def gates(logits):
    """The two best experts of each token, and their shares."""
    share, index = torch.topk(torch.softmax(logits, -1), 2)
    return share / share.sum(-1, keepdim=True), index


def gates_numpy(logits):
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :2]
    top = np.take_along_axis(logits, order, 1)
    e = np.exp(top - top[:, :1])
    return e / e.sum(-1, keepdims=True), order


def gates_torch(logits):
    top, index = logits.topk(2, -1)
    return top.softmax(-1), index


def experts(x, g, w):
    """The sum of all experts' products, weighted by the gates."""
    return (torch.einsum("td,edf->tef", x, w) * g[..., None]).sum(1)


def experts_numpy(x, g, w):
    y = np.zeros((x.shape[0], w.shape[2]), np.float32)
    for e in range(w.shape[0]):
        y += g[:, e : e + 1] * (x @ w[e])
    return y


def distances(a, b):
    """The squares of the distances of all rows of a from all rows of b."""
    return ((a[:, None] - b[None]) ** 2).sum(-1)


def distances_numpy(a, b):
    y = np.empty((len(a), len(b)), np.float32)
    for i, row in enumerate(a):
        d = b - row
        y[i] = np.einsum("nd,nd->n", d, d)
    return y


def cosines(a, b):
    an = a / torch.sqrt((a * a).sum(-1, keepdim=True) + 1e-12)
    bn = b / torch.sqrt((b * b).sum(-1, keepdim=True) + 1e-12)
    return an @ bn.T


def cosines_numpy(a, b):
    sizes = np.sqrt(np.square(a).sum(1) + np.float32(1e-12)), np.sqrt(np.square(b).sum(1) + np.float32(1e-12))
    return (a @ b.T) / sizes[0][:, None] / sizes[1]
