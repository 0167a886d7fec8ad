"""vLLM's functions on torch tensors, on a GPU and in Triton's interpreter."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from unittest.mock import MagicMock

import torch
import triton
import triton.language as tl

Tensor = torch.Tensor


def _bare(name: str) -> None:
    """Have a package without running its `__init__`, which asks for a server's packages."""
    found = find_spec(name)
    assert found is not None, name
    package = ModuleType(name)
    package.__path__ = list(found.submodule_search_locations or ())
    sys.modules[name] = package


# What the files of kernels import of vLLM's besides each other: which GPU it is, and what is set for a server.
for _name in ("vllm", "vllm.model_executor", "vllm.v1", "vllm.v1.attention", "vllm.v1.attention.ops"):
    _bare(_name)
for _name in (
    "envs", "platforms", "platforms.interface", "triton_utils", "utils", "utils.mem_utils", "utils.nccl",
    "utils.platform_utils", "utils.torch_utils",
):  # fmt: skip
    sys.modules[f"vllm.{_name}"] = MagicMock()
sys.modules["vllm.platforms"].current_platform.fp8_dtype = lambda: torch.float8_e4m3fn
sys.modules["vllm.platforms"].current_platform.is_cuda_alike = torch.cuda.is_available
sys.modules["vllm.triton_utils"].tl = tl
sys.modules["vllm.triton_utils"].triton = triton
sys.modules["vllm.utils.platform_utils"].num_compute_units = lambda device: 8
sys.modules["vllm.utils.mem_utils"].get_max_shared_memory_bytes = lambda: (
    torch.cuda.get_device_properties(0).shared_memory_per_block_optin
)

from vllm.model_executor.determinism import batch_invariant  # noqa: E402
from vllm.v1.attention.ops import triton_merge_attn_states as merging  # noqa: E402


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float, y: Tensor) -> None:
    """Write rms_norm_batch_invariant."""
    if x.numel():
        y.copy_(batch_invariant.rms_norm_batch_invariant(x, weight, eps))


def softmax(x: Tensor, *, y: Tensor) -> None:
    """Write softmax."""
    if x.numel():
        y.copy_(batch_invariant.softmax(x))


def log_softmax(x: Tensor, *, y: Tensor) -> None:
    """Write log_softmax."""
    if x.numel():
        y.copy_(batch_invariant.log_softmax(x))


def row_mean(x: Tensor, *, y: Tensor) -> None:
    """Write mean_batch_invariant."""
    if x.numel():
        y.copy_(batch_invariant.mean_batch_invariant(x, [-1]))


def matmul(a: Tensor, b: Tensor, *, c: Tensor) -> None:
    """Write matmul_batch_invariant."""
    if c.numel():
        c.copy_(batch_invariant.matmul_batch_invariant(a, b))


def merge_attn_states(
    prefix: Tensor, prefix_lse: Tensor, suffix: Tensor, suffix_lse: Tensor, *, y: Tensor, lse: Tensor
) -> None:
    """Write merge_attn_states, each row a token with one head."""
    if not prefix.numel():
        return
    made, of_made = torch.empty_like(_heads(prefix)), torch.empty_like(prefix_lse.reshape(1, -1))
    merging.merge_attn_states(
        made, _heads(prefix), prefix_lse.reshape(1, -1), _heads(suffix), suffix_lse.reshape(1, -1), of_made
    )
    y.copy_(made.view(y.shape))
    lse.copy_(of_made.view(lse.shape))


def _heads(x: Tensor) -> Tensor:
    return x.reshape(-1, 1, x.shape[-1])
