"""The four ops in torch: composed of elementary operations, by torch's own function, compiled, and by autograd.

Where the arithmetic has a dtype to be chosen it is float32, as models do it, and float64 for gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float, axis: int, weight_offset: float = 0.0,
    y: torch.Tensor, rstd: torch.Tensor | None = None, compiled: bool = False,
) -> None:  # fmt: skip
    """Mean of squares, plus eps, root, multiply: four operations; as one, where torch compiles them."""
    operations = _by_rows if compiled and x.numel() else _composed
    result, root = operations(x, weight, eps, axis, weight_offset)
    y.copy_(result)
    if rstd is not None:
        rstd.copy_(root.squeeze(axis))


def functional(x: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float, axis: int, y: torch.Tensor) -> None:
    """torch.nn.functional.rms_norm, which normalises the last axis."""
    if axis not in (-1, x.ndim - 1):
        raise ValueError("torch normalises the last axis")
    y.copy_(torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps))


def fixed_order(
    x: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float, axis: int, weight_offset: float = 0.0,
    y: torch.Tensor, rstd: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """The composition, with squares added in an order that the length of the row alone decides."""
    result, root = _composed(x, weight, eps, axis, weight_offset, _mean_in_fixed_order)
    y.copy_(result)
    if rstd is not None:
        rstd.copy_(root.squeeze(axis))


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float, axis: int,
    weight_offset: float = 0.0, y: torch.Tensor, sum: torch.Tensor | None = None, rstd: torch.Tensor | None = None,  # noqa: A002
) -> None:  # fmt: skip
    """The sum in the dtype of x, then the composition."""
    total = x + residual
    result, root = _composed(total, weight, eps, axis, weight_offset)
    y.copy_(result)
    if sum is not None:
        sum.copy_(total)
    if rstd is not None:
        rstd.copy_(root.squeeze(axis))


def rms_norm_backward(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float, axis: int,
    weight_offset: float = 0.0, dx: torch.Tensor, dw: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """What autograd makes of the composition, in float64: in float32 its order of operations underflows early."""
    _differentiate(x, dy, None, weight, eps, axis, weight_offset, (dx,), dw)


def fused_add_rms_norm_backward(
    x: torch.Tensor, dy: torch.Tensor, dsum: torch.Tensor | None = None, weight: torch.Tensor | None = None, *,
    eps: float, axis: int, weight_offset: float = 0.0, dx: torch.Tensor, dresidual: torch.Tensor | None = None,
    dw: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """The same, with the sum's own gradient."""
    _differentiate(x, dy, dsum, weight, eps, axis, weight_offset, (dx,) if dresidual is None else (dx, dresidual), dw)


def _composed(
    x: torch.Tensor, weight: torch.Tensor | None, eps: float, axis: int, weight_offset: float,
    mean: Callable[[torch.Tensor, int], torch.Tensor] = lambda squares, axis: squares.mean(axis, keepdim=True),
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    wide = x if x.dtype == torch.float64 else x.float()
    # The root is taken, then inverted: torch's rsqrt is an estimate on some machines.
    root = 1.0 / torch.sqrt(mean(wide.square(), axis) + eps)
    result = wide * root
    if weight is not None:
        scale = weight.to(wide.dtype)
        scale = scale + weight_offset if weight_offset else scale
        result = result * scale.reshape([-1] + [1] * (x.ndim - 1 - axis % x.ndim))
    return result, root


def _mean_in_fixed_order(squares: torch.Tensor, axis: int) -> torch.Tensor:
    total = _halved(squares.movedim(axis, -1))
    return (total / squares.shape[axis]).movedim(-1, axis)


def _halved(terms: torch.Tensor) -> torch.Tensor:
    """The sum along the last axis: one half is added to the other, element by element, until one is left.

    Each step's elements are independent of one another, so that it matters to none of them how they are shared between
    threads or vectors. torch's own sum of one long row is shared term by term, and depends on the number of threads.
    """
    while (n := terms.shape[-1]) > 1:
        half = n // 2
        added = terms[..., :half] + terms[..., n - half :]
        terms = torch.cat([added, terms[..., half : n - half]], -1)
    return terms


def _differentiate(
    x: torch.Tensor, dy: torch.Tensor, dsum: torch.Tensor | None, weight: torch.Tensor | None, eps: float, axis: int,
    weight_offset: float, gradients: tuple[torch.Tensor, ...], dw: torch.Tensor | None,
) -> None:  # fmt: skip
    # Without a weight its gradient is that of a weight of ones.
    ones = torch.ones(x.shape[axis], device=x.device)
    scale = (ones if weight is None else weight).detach().double().requires_grad_()
    wide = x.detach().double().requires_grad_()
    result, _ = _composed(wide, scale, eps, axis, 0.0 if weight is None else weight_offset)
    found, of_weight = torch.autograd.grad(result, (wide, scale), dy.double())
    if dsum is not None:
        found = found + dsum.double()
    for gradient in gradients:
        gradient.copy_(found)
    if dw is not None:
        dw.copy_(of_weight)


def _by_rows(
    x: torch.Tensor, weight: torch.Tensor | None, eps: float, axis: int, weight_offset: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The composition, compiled, on fresh rows one after the other: to compile takes seconds, and the compiler is told
    of nothing but their number and length, so that one program does for all of a dtype."""
    moved, n = x.movedim(axis, -1), x.shape[axis]
    rows = torch.empty(x.numel() // n, n, dtype=x.dtype, device=x.device)
    rows.view(moved.shape).copy_(moved)
    scale = torch.ones(n, device=x.device)
    if weight is not None:
        scale.copy_(weight)
        scale = scale.add_(weight_offset) if weight_offset else scale
    for tensor in (rows, scale):
        for dim in range(tensor.ndim):
            # Otherwise a length of 1 is a program of its own.
            torch._dynamo.decorators.mark_unbacked(tensor, dim)
    result, root = _compiled()(rows, scale, torch.tensor(eps))
    return result.reshape(moved.shape).movedim(-1, axis), root.reshape(*moved.shape[:-1], 1).movedim(-1, axis)


def _scaled_rows(x: torch.Tensor, scale: torch.Tensor, eps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    wide = x.float()
    root = 1.0 / torch.sqrt(wide.square().mean(-1, keepdim=True) + eps)
    return wide * root * scale, root


@cache
def _compiled() -> Any:
    import torch._dynamo

    # It would go on without compiling, and say so in a warning.
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    return torch.compile(_scaled_rows, dynamic=True, fullgraph=True)
