"""Pairs of a reference and a right kernel that calculates it by an identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn import functional


class Pair(NamedTuple):
    """What a reference says, and what a kernel does instead."""

    name: str
    reference: Callable[..., Any]
    kernel: Callable[..., Any]
    values: str = "any"
    """What inputs are: "any", "positive", or "shares" from 0 to 1."""
    dims: str = "... n"
    """The dimensions of each input; commas part those of several."""


def _gelu(x: Any) -> Any:
    return functional.gelu(x, approximate="tanh")


def _plain_gelu(x: Any) -> Any:
    return functional.gelu(x)


def _sigmoid(x: Any) -> Any:
    return torch.sigmoid(x)


def _tanh(x: Any) -> Any:
    return torch.tanh(x)


def _hardsigmoid(x: Any) -> Any:
    return functional.hardsigmoid(x)


def _softplus(x: Any) -> Any:
    return functional.softplus(x)


def _log_sigmoid(x: Any) -> Any:
    return functional.logsigmoid(x)


def _hypot(a: Any, b: Any) -> Any:
    return torch.hypot(a, b)


def _inner(x: Any) -> Any:
    return 0.7978845608028654 * (x + 0.044715 * x**3)


def _silu(x: Any) -> Any:
    return functional.silu(x)


def _softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


def _log_softmax(x: Any) -> Any:
    return torch.log_softmax(x, -1)


def _most(x: Any) -> Any:
    return x.amax(-1, keepdim=True)


def _bce(x: Any, t: Any) -> Any:
    return functional.binary_cross_entropy_with_logits(x, t, reduction="none")


def _hardswish(x: Any) -> Any:
    return x * torch.clamp(x + 3, 0, 6) / 6


def _blend(a: Any, b: Any, t: Any) -> Any:
    return (1 - t) * a + t * b


def _lerp(a: Any, b: Any, t: Any) -> Any:
    return torch.lerp(a, b, t)


def _away(x: Any) -> Any:
    return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)


def _rms(x: Any) -> Any:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


def _norm(x: Any) -> Any:
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-12)


def _logsumexp(x: Any) -> Any:
    return torch.logsumexp(x, -1)


def _by_moments(x: Any) -> Any:
    mean = x.mean(-1, keepdim=True)
    r = torch.rsqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5)
    return x * r - mean * r


def _shares(x: Any) -> Any:
    return torch.exp(x - _most(x))


def _exp2(x: Any) -> Any:
    t = x * 1.4426950408889634
    e = torch.exp2(t - _most(t))
    return e / e.sum(-1, keepdim=True)


def _mish(x: Any) -> Any:
    e = torch.exp(torch.clamp(x, max=20.0))
    return torch.where(x > 20, x, x * (e * (e + 2) / (e * (e + 2) + 2)))


def _welford(x: Any) -> Any:
    mean = squares = torch.zeros_like(x[..., 0])
    for at in range(x.shape[-1]):
        apart = x[..., at] - mean
        mean = mean + apart / (at + 1)
        squares = squares + apart * (x[..., at] - mean)
    return squares / (x.shape[-1] - 1)


def _smooth(a: Any, b: Any) -> Any:
    apart = abs(a - b)
    return torch.clamp(apart, max=1.0) * (apart - 0.5 * torch.clamp(apart, max=1.0))


PAIRS = (
    Pair("gelu by sigmoid", _gelu, lambda x: x * torch.sigmoid(2 * _inner(x))),
    Pair("gelu by exp", _gelu, lambda x: x / (1 + torch.exp(-2 * _inner(x)))),
    Pair("gelu with the half last", _gelu, lambda x: x * (1 + torch.tanh(_inner(x))) * 0.5),
    Pair("gelu half plus half tanh", _gelu, lambda x: x * (0.5 + 0.5 * torch.tanh(_inner(x)))),
    Pair("gelu by erfc", _plain_gelu, lambda x: 0.5 * x * torch.erfc(-x * 0.7071067811865476)),
    Pair("silu by exp", _silu, lambda x: x / (1 + torch.exp(-x))),
    Pair("silu by tanh", _silu, lambda x: 0.5 * x * (1 + torch.tanh(0.5 * x))),
    Pair("swiglu by tanh", lambda a, b: functional.silu(a) * b, lambda a, b: 0.5 * a * (1 + torch.tanh(a / 2)) * b),
    Pair("swiglu, products first", lambda a, b: functional.silu(a) * b, lambda a, b: a * b * torch.sigmoid(a)),
    Pair("sigmoid by exp", _sigmoid, lambda x: 1 / (1 + torch.exp(-x))),
    Pair("sigmoid by tanh", _sigmoid, lambda x: 0.5 * (1 + torch.tanh(0.5 * x))),
    Pair("tanh by sigmoid", _tanh, lambda x: 2 * torch.sigmoid(2 * x) - 1),
    Pair("softmax by lse", _softmax, lambda x: torch.exp(x - torch.logsumexp(x, -1, keepdim=True))),
    Pair("softmax by exp2", _softmax, _exp2),
    Pair("softmax by a reciprocal", _softmax, lambda x: _shares(x) * (1 / _shares(x).sum(-1, keepdim=True))),
    Pair("log softmax by lse", _log_softmax, lambda x: x - torch.logsumexp(x, -1, keepdim=True)),
    Pair("log softmax in turn", _log_softmax, lambda x: x - _most(x) - _shares(x).sum(-1, keepdim=True).log()),
    Pair("logsumexp by exp2", _logsumexp, lambda x: _most(x)[..., 0] + torch.log2(
        torch.exp2((x - _most(x)) * 1.4426950408889634).sum(-1)) * 0.6931471805599453),
    Pair("bce by log1p", _bce, lambda x, t: torch.clamp(x, min=0) - x * t + torch.log1p(torch.exp(-torch.abs(x)))),
    Pair("bce by softplus", _bce, lambda x, t: (1 - t) * x + functional.softplus(-x)),
    Pair("bce less x t", _bce, lambda x, t: functional.softplus(x) - x * t),
    Pair("hardswish by slope", _hardswish, lambda x: x * torch.clamp(x / 6 + 0.5, 0, 1)),
    Pair("hardswish, factor of 1/6", _hardswish, lambda x: x * torch.clamp(x + 3, 0, 6) * (1 / 6)),
    Pair("hardsigmoid by slope", _hardsigmoid, lambda x: torch.clamp(x * (1 / 6) + 0.5, 0, 1)),
    Pair("softplus, stable", _softplus, lambda x: torch.clamp(x, min=0) + torch.log1p(torch.exp(-abs(x)))),
    Pair("softplus by logaddexp", _softplus, lambda x: torch.logaddexp(x, torch.zeros_like(x))),
    Pair("log sigmoid", _log_sigmoid, lambda x: torch.clamp(x, max=0) - torch.log1p(torch.exp(-abs(x)))),
    Pair("blend from one end", _blend, lambda a, b, t: a + t * (b - a), "shares"),
    Pair("blend from the other end", _blend, lambda a, b, t: b - (1 - t) * (b - a), "shares"),
    Pair("blend by lerp", _blend, _lerp, "shares"),
    Pair("lerp by shares", _lerp, _blend, "shares"),
    Pair("lerp from the other end", _lerp, lambda a, b, t: b - (1 - t) * (b - a), "shares"),
    Pair("norm by x r - m r", _away, _by_moments),
    Pair("norm by division", _away, lambda x: (x - x.mean(-1, keepdim=True))
         / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)),
    Pair("rms norm by division", _rms, lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)),
    Pair("unit norm by rsqrt", _norm, lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-12)),
    Pair("quotient by a reciprocal", lambda a, b: a / b, lambda a, b: a * (1 / b), "positive"),
    Pair("hypot by the larger", _hypot, lambda a, b: torch.maximum(a, b)
         * torch.sqrt(1 + (torch.minimum(a, b) / torch.maximum(a, b)) ** 2), "positive"),
    Pair("hypot of squares", _hypot, lambda a, b: torch.sqrt(a * a + b * b), "positive"),
    Pair("saturation by a share", lambda a, b: (torch.maximum(a, b) - torch.minimum(a, b)) / torch.maximum(a, b),
         lambda a, b: 1 - torch.minimum(a, b) / torch.maximum(a, b), "positive"),
    Pair("gelu by the normal distribution", _plain_gelu, lambda x: x * torch.special.ndtr(x)),
    Pair("softplus of the other sign", _softplus, lambda x: -functional.logsigmoid(-x)),
    Pair("log softmax by exp2", _log_softmax, lambda x: x - _most(x) - torch.log2(torch.exp2(
        (x - _most(x)) * 1.4426950408889634).sum(-1, keepdim=True)) * 0.6931471805599453),
    Pair("mish by one exponential", lambda x: x * torch.tanh(functional.softplus(x)), _mish),
    Pair("tanh by expm1", _tanh, lambda x: torch.copysign(1 - 2 / (torch.expm1(2 * abs(x)) + 2), x)),
    Pair("elu by exp", lambda x: functional.elu(x), lambda x: torch.where(x > 0, x, torch.exp(x) - 1)),
    Pair("elu, halved, by exp", lambda x: functional.elu(x, 0.5),
         lambda x: torch.where(x > 0, x, (torch.exp(x) - 1) / 2)),
    Pair("power of -1/2", lambda a: 1 / torch.sqrt(a), lambda a: torch.pow(a, -0.5), "positive"),
    Pair("smooth l1 by a clamp", lambda a, b: functional.smooth_l1_loss(a, b, reduction="none"), _smooth),
    Pair("hinge by addcmul", lambda a, b: torch.clamp(1 - a * b, min=0),
         lambda a, b: functional.relu(torch.addcmul(torch.ones_like(a), a, b, value=-1))),
    Pair("divergence by a quotient", lambda a, b: a * (torch.log(a) - torch.log(b)),
         lambda a, b: a * torch.log(a / b), "positive"),
    Pair("average by a step", lambda a, b: b * 0.9 + a * 0.1, lambda a, b: b + 0.1 * (a - b)),
    Pair("rms norm, n folded", _rms, lambda x: x * (x.shape[-1] ** 0.5 * torch.rsqrt(
        (x * x).sum(-1, keepdim=True) + x.shape[-1] * 1e-6))),
    Pair("cosine of unit rows", lambda a, b: functional.cosine_similarity(a, b, dim=-1),
         lambda a, b: (functional.normalize(a, eps=1e-8) * functional.normalize(b, eps=1e-8)).sum(-1)),
    Pair("variance by sums", lambda x: x.var(-1), lambda x: (x * x).sum(-1) / (x.shape[-1] - 1)
         - x.sum(-1) ** 2 / (x.shape[-1] * (x.shape[-1] - 1))),
    Pair("variance by Welford", lambda x: x.var(-1), _welford),
    Pair("distances by the product", lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1),
         lambda a, b: (a * a).sum(-1)[:, None] - 2 * (a @ b.T) + (b * b).sum(-1)[None], dims="i d, j d"),
    Pair("sum of a divergence by a quotient", lambda a, b: (a * (torch.log(a) - torch.log(b))).sum(-1),
         lambda a, b: (a * torch.log(a / b)).sum(-1), "positive"),
    Pair("layer norm by moments", _away, lambda x: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(
        (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2 + 1e-5)),
    Pair("mean by 1/n", lambda x: x.mean(-1), lambda x: x.sum(-1) * (1 / x.shape[-1])),
)  # fmt: skip
