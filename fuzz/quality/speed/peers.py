"""What a kernel on a GPU is compared with: torch's own operations, and torch.compile of the composition."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from fuzz.quality.speed import EPS

Tensors = Mapping[str, Any]
Peer = Callable[[Tensors], tuple[Any, ...]]
"""A function of the inputs that returns the outputs in the order of the op."""


def eager(op: str, torch: Any) -> Peer:
    """torch's fastest operations for it."""
    norm, backward = torch.nn.functional.rms_norm, torch.ops.aten._fused_rms_norm_backward

    def forward(t: Tensors) -> tuple[Any, ...]:
        return (norm(t["x"], t["x"].shape[-1:], t["weight"], EPS),)

    def fused_add(t: Tensors) -> tuple[Any, ...]:
        total = t["x"] + t["residual"]
        return norm(total, total.shape[-1:], t["weight"], EPS), total

    def gradient(t: Tensors) -> tuple[Any, ...]:
        found = backward(t["dy"], t["x"], list(t["x"].shape[-1:]), t["rstd"][:, None], t["weight"], [True, True])
        return tuple(found)

    def fused_add_gradient(t: Tensors) -> tuple[Any, ...]:
        dx, dw = gradient(t)
        return dx + t["dsum"], dw

    return {
        "rms_norm": forward,
        "fused_add_rms_norm": fused_add,
        "rms_norm_backward": gradient,
        "fused_add_rms_norm_backward": fused_add_gradient,
    }[op]


def compiled(op: str, torch: Any) -> Peer:
    """The composition as one function, compiled for rows of one length, however many."""
    config: Any = importlib.import_module("torch._dynamo.config")
    # A program for each dtype and length, and an error rather than the interpreter once there are too many.
    config.recompile_limit, config.automatic_dynamic_shapes, config.fail_on_recompile_limit_hit = 256, False, True
    composition = torch.compile(composed(op, torch), fullgraph=True)

    def call(t: Tensors) -> tuple[Any, ...]:
        for name, tensor in t.items():
            if name != "weight":
                torch._dynamo.mark_dynamic(tensor, 0)
        found: tuple[Any, ...] = composition(t)
        return found

    return call


def composed(op: str, torch: Any) -> Peer:
    """Elementary operations in float32, rounded at the end, as models write them."""

    def root(x: Any) -> Any:
        return torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)

    def forward(t: Tensors) -> tuple[Any, ...]:
        wide = t["x"].float()
        return ((wide * root(wide) * t["weight"].float()).to(t["x"].dtype),)

    def fused_add(t: Tensors) -> tuple[Any, ...]:
        total = t["x"] + t["residual"]
        wide = total.float()
        return (wide * root(wide) * t["weight"].float()).to(total.dtype), total

    def gradient(t: Tensors) -> tuple[Any, ...]:
        rstd, dy = t["rstd"][:, None], t["dy"].float()
        h, m = t["x"].float() * rstd, dy * t["weight"].float()
        dx = rstd * (m - h * (h * m).mean(-1, keepdim=True))
        if "dsum" in t:
            dx = dx + t["dsum"].float()
        return dx.to(t["x"].dtype), (dy * h).sum(0).to(t["weight"].dtype)

    return {"rms_norm": forward, "fused_add_rms_norm": fused_add}.get(op, gradient)
