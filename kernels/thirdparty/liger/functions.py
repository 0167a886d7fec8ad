"""liger-kernel's functions on torch tensors, on a GPU and in Triton's interpreter."""

from __future__ import annotations

import torch
import triton.language as tl
from liger_kernel.ops import fused_add_rms_norm as _added
from liger_kernel.ops import layer_norm as _layer
from liger_kernel.ops import rms_norm as _rms
from liger_kernel.ops import softmax as _soft
from liger_kernel.ops import swiglu as _swiglu

Tensor = torch.Tensor


class _Number(float):
    """A number as kernels see it on a device; the interpreter passes it as Python's own, which has no `to`."""

    def to(self, dtype: tl.dtype) -> tl.tensor:
        return tl.full((), float(self), dtype)


def rms_norm(
    x: Tensor, weight: Tensor | None = None, *, eps: float, weight_offset: float = 0.0, y: Tensor,
    rstd: Tensor | None = None, mode: str,
) -> None:  # fmt: skip
    """Write what rms_norm_forward returns."""
    if x.numel() == 0:
        return
    _prepare(x)
    made, _, root, *_ = _rms.rms_norm_forward(x, weight, _number(eps, x), _number(weight_offset, x), mode, None)
    y.copy_(made)
    if rstd is not None:
        rstd.copy_(root.view(rstd.shape))


def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, *, eps: float, weight_offset: float = 0.0, y: Tensor,
    sum: Tensor | None = None, mode: str,  # noqa: A002
) -> None:  # fmt: skip
    """Write what fused_add_rms_norm_forward returns."""
    if x.numel() == 0:
        return
    _prepare(x)
    made, total, *_ = _added.fused_add_rms_norm_forward(
        x, residual, weight, _number(eps, x), _number(weight_offset, x), mode
    )
    y.copy_(made)
    if sum is not None:
        sum.copy_(total)


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, *, eps: float, y: Tensor, mean: Tensor | None = None,
    rstd: Tensor | None = None,
) -> None:  # fmt: skip
    """Write what layer_norm_forward returns."""
    if x.numel() == 0:
        return
    _prepare(x)
    made, _, middle, root, *_ = _layer.layer_norm_forward(x, weight, bias, _number(eps, x))
    y.copy_(made)
    for output, value in ((mean, middle), (rstd, root)):
        if output is not None:
            output.copy_(value.view(output.shape))


def softmax(x: Tensor, *, y: Tensor) -> None:
    """Write what LigerSoftmaxFunction returns."""
    if x.numel():
        y.copy_(_soft._softmax_forward(x)[0])


def silu_mul(gate: Tensor, up: Tensor, *, y: Tensor) -> None:
    """Write what swiglu_forward returns."""
    if gate.numel():
        y.copy_(_swiglu.swiglu_forward(gate, up)[2])


def _prepare(x: Tensor) -> None:
    """Triton's interpreter has no libdevice, from which the norms take rsqrt. It patches `tl` while a kernel runs."""
    if x.device.type == "cpu":
        for module in (_rms, _added, _layer):
            module.rsqrt = lambda value: tl.rsqrt(value)


def _number(value: float, x: Tensor) -> float:
    return value if x.device.type == "cuda" else _Number(value)
