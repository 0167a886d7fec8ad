"""What a kernel on a GPU is compared with: torch's own operations, torch.compile of the composition, and liger-kernel
where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
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

    def layer_norm(t: Tensors) -> tuple[Any, ...]:
        return (torch.nn.functional.layer_norm(t["x"], t["x"].shape[-1:], t["weight"], t["bias"], EPS),)

    return {
        "rms_norm": forward,
        "fused_add_rms_norm": fused_add,
        "rms_norm_backward": gradient,
        "fused_add_rms_norm_backward": fused_add_gradient,
        "layer_norm": layer_norm,
        "softmax": lambda t: (torch.softmax(t["x"], -1),),
    }[op]


def shipped(op: str) -> Peer | None:
    """What liger-kernel launches for it; None where that is not installed or has nothing for it."""
    if importlib.util.find_spec("liger_kernel") is None:
        return None
    ops: Any = importlib.import_module("liger_kernel.ops")

    def forward(t: Tensors) -> tuple[Any, ...]:
        return (ops.rms_norm.rms_norm_forward(t["x"], t["weight"], EPS, 0.0, "gemma", None)[0],)

    def fused_add(t: Tensors) -> tuple[Any, ...]:
        add = ops.fused_add_rms_norm.fused_add_rms_norm_forward
        made, total, *_ = add(t["x"], t["residual"], t["weight"], EPS, 0.0, "gemma")
        return made, total

    return {
        "rms_norm": forward,
        "fused_add_rms_norm": fused_add,
        "layer_norm": lambda t: (ops.layer_norm.layer_norm_forward(t["x"], t["weight"], t["bias"], EPS)[0],),
        "softmax": lambda t: (ops.softmax._softmax_forward(t["x"])[0],),
    }.get(op)


def compiled(op: str, torch: Any) -> Peer:
    """The composition as one function, compiled for rows of one length, however many."""
    config: Any = importlib.import_module("torch._dynamo.config")
    # A program for each dtype and length, and an error rather than the interpreter once there are too many.
    config.recompile_limit, config.automatic_dynamic_shapes, config.fail_on_recompile_limit_hit = 256, False, True
    composition = torch.compile(composed(op, torch), fullgraph=True)

    def call(t: Tensors) -> tuple[Any, ...]:
        for tensor in t.values():
            if tensor.dim() > 1:
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

    def layer_norm(t: Tensors) -> tuple[Any, ...]:
        wide = t["x"].float()
        centred = wide - wide.mean(-1, keepdim=True)
        y = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPS)
        return ((y * t["weight"].float() + t["bias"].float()).to(t["x"].dtype),)

    def softmax(t: Tensors) -> tuple[Any, ...]:
        return (torch.softmax(t["x"].float(), -1).to(t["x"].dtype),)

    own = {"rms_norm": forward, "fused_add_rms_norm": fused_add, "layer_norm": layer_norm, "softmax": softmax}
    return own.get(op, gradient)
