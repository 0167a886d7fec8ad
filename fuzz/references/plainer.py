"""Operations of torch in terms of plainer ones, which have formulas: what moves elements by windows and blocks, what
takes them at calculated places, flags and counts of indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER = 0, 1
"""Torch's numbers for ways to interpolate, and for what lies outside."""


def plainer() -> Mapping[Any, Callable[..., Any]]:
    """Return, for operations of torch, functions that calculate the same by plainer ones."""
    import torch

    aten = torch.ops.aten
    return {
        aten.eye.default: _eye, aten.eye.m: _eye, aten.linspace.default: _linspace,
        aten.pixel_shuffle.default: _spread_out, aten.pixel_unshuffle.default: _gathered_in,
        aten.channel_shuffle.default: lambda x, groups: x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2),
        aten.rot90.default: _turned,
        aten.unfold.default: unfolded, aten.im2col.default: _columns, aten.col2im.default: _of_columns,
        aten._adaptive_avg_pool2d.default: _averages, aten._adaptive_avg_pool3d.default: _averages,
        aten.grid_sampler_2d.default: _sampled, aten.bincount.default: _counts,
        aten.logcumsumexp.default: _logarithms_up_to,
    }  # fmt: skip


def _eye(n: int, m: int | None = None, dtype: Any = None, **_: Any) -> Any:
    import torch

    return (torch.arange(n)[:, None] == torch.arange(n if m is None else m)).to(dtype or torch.get_default_dtype())


def _linspace(start: float, end: float, steps: int, dtype: Any = None, **_: Any) -> Any:
    import torch

    place = torch.arange(steps, dtype=dtype or torch.get_default_dtype())
    found = torch.where(place > 0, place * ((end - start) / max(steps - 1, 1)), 0.0)  # with one place no step
    return found + start if start else found


def _spread_out(x: Any, times: int) -> Any:
    *outer, _, h, w = x.shape
    apart = x.unflatten(-3, (-1, times, times))
    at = len(outer)
    moved = apart.permute(*range(at), at, at + 3, at + 1, at + 4, at + 2)
    return moved.reshape(*outer, moved.shape[at], h * times, w * times)


def _gathered_in(x: Any, times: int) -> Any:
    at = x.ndim - 3
    apart = x.unflatten(-1, (-1, times)).unflatten(-3, (-1, times))
    return apart.permute(*range(at), at, at + 2, at + 4, at + 1, at + 3).flatten(at, at + 2)


def _turned(x: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    one, two = dims
    if k % 4 == 2:
        return x.flip(one, two)
    return x if k % 4 == 0 else (x.flip(two) if k % 4 == 1 else x.flip(one)).transpose(one, two)


def unfolded(x: Any, dim: int, size: int, step: int) -> Any:
    """Return windows of an axis, along a new last axis."""
    return _windows(x, dim % x.ndim, size, step, 1).movedim(dim % x.ndim + 1, -1)


def _windows(x: Any, at: int, size: int, step: int, dilation: int) -> Any:
    """Return windows of an axis, along a new axis after it."""
    import torch

    count = (x.shape[at] - dilation * (size - 1) - 1) // step + 1
    places = torch.arange(count)[:, None] * step + torch.arange(size) * dilation
    return x[(*[slice(None)] * at, places)]


def _columns(x: Any, size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], step: Sequence[int]) -> Any:
    import torch

    x = torch.nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0])) if any(padding) else x
    at = x.ndim - 2
    x = _windows(_windows(x, at + 1, size[1], step[1], dilation[1]), at, size[0], step[0], dilation[0])
    moved = x.permute(*range(at), at + 1, at + 3, at, at + 2)  # c, both places in windows, both numbers of windows
    return moved.flatten(at + 2).flatten(at - 1, at + 1)


def _of_columns(
    x: Any, out: Sequence[int], size: Sequence[int], dilation: Sequence[int], padding: Sequence[int],
    step: Sequence[int],
) -> Any:  # fmt: skip
    import torch

    whole = [n + 2 * pad for n, pad in zip(out, padding, strict=True)]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(whole, dilation, size, step, strict=True)]
    x = x.unflatten(-1, counts).unflatten(-3, (-1, *size))
    ends = [(n - 1) * s + 1 for n, s in zip(counts, step, strict=True)]
    found = x.new_zeros((*x.shape[:-4], *whole))
    for i, j in product(range(size[0]), range(size[1])):
        row, column = i * dilation[0], j * dilation[1]
        rows = x.new_zeros((*x.shape[:-4], counts[0], whole[1]))
        rows = torch.slice_scatter(rows, x[..., i, j, :, :], -1, column, column + ends[1], step[1])
        found = found + torch.slice_scatter(torch.zeros_like(found), rows, -2, row, row + ends[0], step[0])
    return found[..., padding[0] : padding[0] + out[0], padding[1] : padding[1] + out[1]]


def _averages(x: Any, sizes: Sequence[int]) -> Any:
    for back, size in enumerate(reversed(sizes), 1):
        x = _averaged(x, x.ndim - back, size)
    return x


def _averaged(x: Any, at: int, size: int) -> Any:
    """Return means along an axis of as many parts as `size`, which share elements where they are not whole."""
    import torch

    n = x.shape[at]
    if size == 1:
        return x.mean(at, keepdim=True)
    if n % size == 0:
        return x.unflatten(at, (size, n // size)).mean(at + 1)
    place, window = torch.arange(n, dtype=x.dtype), torch.arange(size, dtype=x.dtype)[:, None]
    start, end = torch.floor(window * n / size), -torch.floor(-(window + 1.0) * n / size)
    inside = (place >= start) & (place < end)
    last = x.movedim(at, -1)[..., None, :]
    found = torch.where(inside, last, 0.0).sum(-1) / (end - start)[:, 0]
    return found.movedim(-1, at)


def _sampled(x: Any, grid: Any, how: int, outside: int, align_corners: bool) -> Any:
    """Return elements at places in rows and columns: a sum of all, with shares that are 0 where an element is not near.
    So the result is continuous, where indices would jump."""
    import torch

    if how not in (_BILINEAR, _NEAREST) or outside not in (_ZEROS, _BORDER):
        raise NotImplementedError("grid_sample by cubic splines, or with reflection")
    shares = list[Any]()
    for at, size in ((1, x.shape[-2]), (0, x.shape[-1])):
        end = size - 1.0
        place = grid[..., at] * (end / 2.0 if align_corners else size / 2.0) + end / 2.0
        place = place.clamp(0.0, end) if outside == _BORDER else place
        place = place.round() if how == _NEAREST else place
        away = (place[..., None] - torch.arange(size, dtype=x.dtype)).abs()
        shares.append((away == 0.0).to(x.dtype) if how == _NEAREST else (1.0 - away).clamp(min=0.0))
    rows, columns = shares
    by_column = (x[:, :, None, None] * rows[:, None, ..., None]).sum(-2)
    return (by_column * columns[:, None]).sum(-1)


def flags(index: Any, num_classes: int = -1) -> Any:
    """Return torch's `one_hot`, which itself looks at the values."""
    import torch

    if num_classes < 0:
        raise NotImplementedError("one_hot has as many flags as its values say: write num_classes")
    return (index[..., None] == torch.arange(num_classes)).to(torch.int64)


def _counts(index: Any, weights: Any = None, minlength: int = 0) -> Any:
    import torch

    if not minlength:
        raise NotImplementedError("bincount has as many counts as its values say: write minlength")
    each = torch.ones(index.shape, dtype=torch.int64) if weights is None else weights
    return torch.zeros(minlength, dtype=each.dtype).index_add(0, index, each)


def _logarithms_up_to(x: Any, dim: int) -> Any:
    import torch

    if not x.ndim:
        return x
    place, rows = torch.arange(x.shape[dim]), x.movedim(dim, -1)
    terms = torch.where(place <= place[:, None], rows[..., None, :], float("-inf"))
    return terms.logsumexp(-1).movedim(-1, dim)
