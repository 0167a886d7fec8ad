"""The seven kernels, as somebody who knows torch writes them. Each is right except for the mistake in its docstring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

BLOCK = 4


def softmax_tail(x: Any) -> Any:
    """The last block of a row is padded with 0 in place of minus infinity."""
    below = x.float() - x.float().amax(-1, keepdim=True)
    e = torch.exp(functional.pad(below, (0, -x.shape[-1] % BLOCK)))
    return (e / e.sum(-1, keepdim=True))[..., : x.shape[-1]].to(x.dtype)


def softmax_max(x: Any) -> Any:
    """The maximum is not subtracted before the exponential."""
    e = torch.exp(x.float())
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def softmax_rows(x: Any) -> Any:
    """Rows after the last whole block of 4 are left out."""
    y, rows = torch.zeros_like(x), x.reshape(-1, x.shape[-1])
    out = y.view(rows.shape)
    for first in range(0, len(rows) - BLOCK + 1, BLOCK):
        block = slice(first, first + BLOCK)
        out[block] = torch.softmax(rows[block], -1)
    return y


def rms_norm_eps(x: Any, eps: float) -> Any:
    """eps is added after the square root, not before it."""
    wide = x.float()
    return (wide / (wide.square().mean(-1, keepdim=True).sqrt() + eps)).to(x.dtype)


def rms_norm_dtype(x: Any, eps: float) -> Any:
    """Squares and their mean are computed in the dtype of the input, here bf16."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def rms_norm_square(x: Any, weight: Any, eps: float) -> Any:
    """The weight multiplies the first axis of its length, which in a square is the wrong one."""
    y = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    places = [1] * x.dim()
    places[list(x.shape).index(len(weight))] = len(weight)
    return (y * weight.float().view(places)).to(x.dtype)


def layer_norm_moments(x: Any, eps: float) -> Any:
    """The variance is mean(x^2) - mean(x)^2."""
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    var = wide.square().mean(-1, keepdim=True) - mean.square()
    return ((wide - mean) * torch.rsqrt(var + eps)).to(x.dtype)


def rms_norm(x: Any, weight: Any = None, *, eps: float) -> Any:
    """torch's own, to compare with."""
    return functional.rms_norm(x, x.shape[-1:], weight, eps)


def layer_norm(x: Any, eps: float) -> Any:
    """torch's own, to compare with."""
    return functional.layer_norm(x, x.shape[-1:], eps=eps)


def softmax(x: Any) -> Any:
    """torch's own, to compare with."""
    return torch.softmax(x, -1)


PLANTED: Mapping[Callable[..., Any], Callable[..., Any]] = {
    softmax_tail: softmax,
    softmax_max: softmax,
    softmax_rows: softmax,
    rms_norm_eps: rms_norm,
    rms_norm_dtype: rms_norm,
    rms_norm_square: rms_norm,
    layer_norm_moments: layer_norm,
}
"""Each kernel with what it should compute, a function with the name of the op."""
