"""gelu, its approximation, silu_mul and their gradients in torch: composed in float32, and by torch's own functions."""

from __future__ import annotations

import torch
from torch.nn import functional


def gelu(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """By the error function."""
    wide = x.float()
    y.copy_(0.5 * wide * (1.0 + torch.erf(wide * 0.5**0.5)))


def gelu_tanh(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """By the hyperbolic tangent."""
    wide = x.float()
    u = (2.0 / torch.pi) ** 0.5 * (wide + 0.044715 * (wide * wide * wide))
    y.copy_(0.5 * wide * (1.0 + torch.tanh(u)))


def silu_mul(gate: torch.Tensor, up: torch.Tensor, *, y: torch.Tensor) -> None:
    """gate sigmoid(gate), times up."""
    wide = gate.float()
    y.copy_(wide * torch.sigmoid(wide) * up.float())


def gelu_backward(x: torch.Tensor, dy: torch.Tensor, *, dx: torch.Tensor) -> None:
    """dx = dy (cdf + x pdf)."""
    wide = x.float()
    cdf = 0.5 * (1.0 + torch.erf(wide * 0.5**0.5))
    pdf = torch.exp(wide * wide * -0.5) * (2.0 * torch.pi) ** -0.5
    dx.copy_(dy.float() * (cdf + wide * pdf))


def gelu_tanh_backward(x: torch.Tensor, dy: torch.Tensor, *, dx: torch.Tensor) -> None:
    """dx = dy ((1 + t) / 2 + x (1 - t^2) u' / 2)."""
    wide, root = x.float(), (2.0 / torch.pi) ** 0.5
    square = wide * wide
    t = torch.tanh(root * (wide + 0.044715 * (square * wide)))
    slope = root * (1.0 + 3.0 * 0.044715 * square)
    dx.copy_(dy.float() * (0.5 * (1.0 + t) + 0.5 * wide * (1.0 - t * t) * slope))


def silu_mul_backward(
    gate: torch.Tensor, up: torch.Tensor, dy: torch.Tensor, *, dgate: torch.Tensor, dup: torch.Tensor
) -> None:
    """Both gradients; all is read before anything is written."""
    wide, given = gate.float(), dy.float()
    s = torch.sigmoid(wide)
    of_gate = given * up.float() * (s * (1.0 + wide * (1.0 - s)))
    dup.copy_(given * (wide * s))
    dgate.copy_(of_gate)


def native_gelu(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """torch.nn.functional.gelu."""
    y.copy_(functional.gelu(x))


def native_gelu_tanh(x: torch.Tensor, *, y: torch.Tensor) -> None:
    """The same, approximate."""
    y.copy_(functional.gelu(x, approximate="tanh"))


def native_silu_mul(gate: torch.Tensor, up: torch.Tensor, *, y: torch.Tensor) -> None:
    """torch.nn.functional.silu, whose result is rounded before it is multiplied."""
    y.copy_(functional.silu(gate) * up)
