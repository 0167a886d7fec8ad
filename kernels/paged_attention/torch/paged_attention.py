"""paged_attention in torch: the pages of a sequence side by side, then elementary operations."""

from __future__ import annotations

import torch


def paged_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, *,
    softmax_scale: float, o: torch.Tensor, lse: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """One sequence after the other, with the keys that are there."""
    slots = k.shape[1]
    for b, (pages, length) in enumerate(zip(table.long(), lengths.tolist(), strict=True)):
        places = torch.arange(length, device=q.device)
        page = pages[places // max(slots, 1)]
        page, slot = page[page >= 0], (places % max(slots, 1))[page >= 0]
        keys, values = (each[page, slot].float().transpose(0, 1) for each in (k, v))
        s = torch.matmul(q[b].float(), keys.transpose(-1, -2)) * softmax_scale
        most = s.amax(-1, keepdim=True) if len(page) else s.new_full((*s.shape[:-1], 1), float("-inf"))
        nothing = most == float("-inf")
        p = torch.exp(s - most.masked_fill(nothing, 0.0))
        mass = p.sum(-1, keepdim=True)
        o[b].copy_((torch.matmul(p, values) / mass).masked_fill(nothing, 0.0))
        if lse is not None:
            lse[b].copy_((most + torch.log(mass))[..., 0])
