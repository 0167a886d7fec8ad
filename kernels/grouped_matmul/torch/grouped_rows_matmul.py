"""grouped_rows_matmul in torch: a product for each group, and the library's own."""

from __future__ import annotations

import torch
from torch.nn.functional import grouped_mm


def grouped_rows_matmul(
    a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor, bias: torch.Tensor | None = None, *, c: torch.Tensor
) -> None:
    """torch.matmul of the rows of each group, which begin where those of the group before it end."""
    first = 0
    for group, end in enumerate(offs.tolist()):
        product = torch.matmul(a[first:end].float(), b[group].float())
        c[first:end].copy_(product if bias is None else product + bias[group].float())
        first = end
    c[first:].zero_()


def native(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.grouped_mm, given copies: it checks the stride of an axis of one element too. What it leaves
    unwritten behind the last group is set to 0."""
    first, second = (each.clone(memory_format=torch.contiguous_format) for each in (a, b))
    c = grouped_mm(first, second, offs=offs)
    c[int(offs[-1]) :].zero_()
    return c
