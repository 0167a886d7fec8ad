"""transformers' modules on torch tensors."""

from __future__ import annotations

import torch
from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm

_NORMS = {"llama": LlamaRMSNorm, "t5": T5LayerNorm}


def rms_norm(x: torch.Tensor, weight: torch.Tensor, *, eps: float, y: torch.Tensor, model: str) -> None:
    """Write the norm of a model."""
    module = _NORMS[model](x.shape[-1], eps)
    module.weight = torch.nn.Parameter(weight, requires_grad=False)
    y.copy_(module(x))


def gelu(x: torch.Tensor, *, y: torch.Tensor, name: str) -> None:
    """Write the activation of that name."""
    y.copy_(ACT2FN[name](x))


gelu_tanh = gelu
