"""The largest probabilities of rows of logits in torch, in float32."""

from __future__ import annotations

import torch


def topk_softmax(
    x: torch.Tensor, *, axis: int, renormalise: float = 0.0, weight: torch.Tensor, expert: torch.Tensor
) -> None:
    """The softmax first, then torch.topk."""
    if x.numel():
        e = torch.exp(x.float() - x.float().amax(axis, keepdim=True))
        p = (e / e.sum(axis, keepdim=True)).movedim(axis, -1)
        largest, found = p.topk(weight.shape[-1], -1)
        weight.copy_(largest / largest.sum(-1, keepdim=True) if renormalise else largest)
        expert.copy_(found)


def softmax_of_topk(x: torch.Tensor, *, axis: int, weight: torch.Tensor, expert: torch.Tensor) -> None:
    """The largest logits first: torch.topk says nothing of equal ones, a stable sort does."""
    if x.numel():
        ordered, found = x.float().movedim(axis, -1).sort(dim=-1, descending=True, stable=True)
        largest = ordered[..., : weight.shape[-1]]
        e = torch.exp(largest - largest[..., :1])
        weight.copy_(e / e.sum(-1, keepdim=True))
        expert.copy_(found[..., : weight.shape[-1]])
