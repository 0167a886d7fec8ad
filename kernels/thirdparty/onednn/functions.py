"""oneDNN's primitives, which torch calls for tensors in its layout."""

from __future__ import annotations

import torch
from torch.nn import functional

Tensor = torch.Tensor


def softmax(x: Tensor, *, y: Tensor) -> None:
    """Write softmax."""
    y.copy_(x.to_mkldnn().softmax(-1).to_dense(y.dtype))


def gelu(x: Tensor, *, y: Tensor) -> None:
    """Write gelu."""
    y.copy_(functional.gelu(x.to_mkldnn()).to_dense(y.dtype))


def matmul(a: Tensor, b: Tensor, *, c: Tensor) -> None:
    """Write linear, each product of matrices by itself."""
    for each, other, made in zip(_matrices(a), _matrices(b), _matrices(c), strict=True):
        made.copy_(functional.linear(each.contiguous().to_mkldnn(), other.T.contiguous()).to_dense(made.dtype))


def pointwise(a: Tensor, b: Tensor, *, c: Tensor) -> None:
    """Write linear with what torch.compile fuses."""
    for each, other, made in zip(_matrices(a), _matrices(b), _matrices(c), strict=True):
        made.copy_(torch.ops.mkldnn._linear_pointwise(each.contiguous(), other.T.contiguous(), None, "none", [], ""))


def _matrices(stack: Tensor) -> Tensor:
    return stack.reshape(-1, *stack.shape[-2:])
