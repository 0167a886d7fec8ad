"""grouped_matmul in torch: a product for each group, and the library's own."""

from __future__ import annotations

import torch
from torch.nn.functional import grouped_mm


def grouped_matmul(
    a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, collected: torch.Tensor | None = None, *, c: torch.Tensor
) -> None:
    """torch.matmul of the terms of each group, which begin where those of the group before it end."""
    first = 0
    for group, end in enumerate(offs.tolist()):
        product = torch.matmul(a[:, first:end].float(), b[first:end].float())
        c[group].copy_(product if collected is None else collected[group].float() + product)
        first = end


def native(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.grouped_mm, given copies: it checks the stride of an axis of one element too."""
    first, second = (each.clone(memory_format=torch.contiguous_format) for each in (a, b))
    return grouped_mm(first, second, offs=offs)
