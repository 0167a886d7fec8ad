"""FlashInfer's functions on torch tensors, on a GPU and in Triton's interpreter."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType

import torch

Tensor = torch.Tensor


def _bare(name: str) -> None:
    """Have a package without running its `__init__`, which asks for compilers of CUDA and what comes with them."""
    found = find_spec(name)
    assert found is not None, name
    package = ModuleType(name)
    package.__path__ = list(found.submodule_search_locations or ())
    sys.modules[name] = package


for _name in ("flashinfer", "flashinfer.triton"):
    _bare(_name)

from flashinfer.triton import activation, norm  # noqa: E402
from flashinfer.triton.kernels import cascade  # noqa: E402


def rms_norm(x: Tensor, weight: Tensor, *, eps: float, y: Tensor) -> None:
    """Write rms_norm."""
    if x.numel():
        norm.rms_norm(_rows(x), weight, _rows(y), eps)


def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, *, eps: float, y: Tensor, sum: Tensor | None = None,  # noqa: A002
) -> None:  # fmt: skip
    """Write what rms_norm_add_residual writes, and the residual that it changes."""
    if x.numel() == 0:
        return
    total = residual.clone()
    norm.rms_norm_add_residual(_rows(x), _rows(total), weight, eps, x_out=_rows(y))
    if sum is not None:
        sum.copy_(total)


def silu_mul(gate: Tensor, up: Tensor, *, y: Tensor) -> None:
    """Write silu_and_mul of both side by side."""
    if gate.numel():
        y.copy_(activation.silu_and_mul(torch.cat((_rows(gate), _rows(up)), -1)).view(y.shape))


def merge_state(v_a: Tensor, s_a: Tensor, v_b: Tensor, s_b: Tensor, *, v: Tensor, s: Tensor) -> None:
    """Launch merge_state's kernel as it does, which refuses all but one model of GPU."""
    if v_a.numel():
        rows, n = _rows(v_a).shape
        cascade.merge_state_kernel[(rows,)](v_a, s_a, v_b, s_b, v, s, 1, n, bdx=n, bdy=1)


def merge_state_in_place(v_a: Tensor, s_a: Tensor, v_b: Tensor, s_b: Tensor, *, v: Tensor, s: Tensor) -> None:
    """Launch the kernel of merge_state_in_place."""
    v.copy_(v_a)
    s.copy_(s_a)
    if v_a.numel():
        rows, n = _rows(v_a).shape
        cascade.merge_state_in_place_kernel[(rows,)](v, s, v_b, s_b, 1, n, None, bdx=n, bdy=1)


def _rows(x: Tensor) -> Tensor:
    return x.view(-1, x.shape[-1])
