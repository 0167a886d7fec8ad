"""Kernels of windows, resizes and padding: right ones by loops and other libraries, and wrong ones by somebody who
knows only what each op is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from fuzz.tests.common.complex_kernels import Row

Kernel = Callable[..., Any]


def windows(x: Any, size: int = 3, step: int = 1, pad: int = 1, value: float = 0.0) -> Any:
    """Return windows of both last axes of an array, by loops."""
    x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(pad, pad)] * 2, constant_values=value)
    h, w = ((n - size) // step + 1 for n in x.shape[-2:])
    found = np.zeros((*x.shape[:-2], size, size, h, w), x.dtype)
    for i in range(size):
        for j in range(size):
            found[..., i, j, :, :] = x[..., i : i + step * h : step, j : j + step * w : step]
    return found


def columns(x: Any, **given: Any) -> Any:
    found = windows(x, **given)
    return found.reshape(len(x), -1, found.shape[-2] * found.shape[-1])


def columns_by_convolution(x: Any) -> Any:
    c = x.shape[1]
    kernel = torch.eye(9, dtype=x.dtype).reshape(9, 1, 3, 3).repeat(c, 1, 1, 1)
    return functional.conv2d(x, kernel, padding=1, groups=c).flatten(2)


def swapped(x: Any) -> Any:
    found = windows(x).swapaxes(2, 3)
    return found.reshape(len(x), -1, found.shape[-2] * found.shape[-1])


def places_first(x: Any) -> Any:
    found = np.moveaxis(windows(x), 1, 3)
    return found.reshape(len(x), -1, found.shape[-2] * found.shape[-1])


def transposed_places(x: Any) -> Any:
    found = windows(x).swapaxes(-1, -2)
    return found.reshape(len(x), -1, found.shape[-2] * found.shape[-1])


def by_average(x: Any, size: int, how: Kernel = np.mean, low: Kernel = np.floor, high: Kernel = np.ceil) -> Any:
    """Return means over parts of the last axis."""
    n = x.shape[-1]
    ends = [(int(low(at * n / size)), int(high((at + 1) * n / size))) for at in range(size)]
    return np.stack([how(x[..., a : max(b, a + 1)], -1) for a, b in ends], -1).astype(x.dtype)


def taken(x: Any, size: int, place: Kernel) -> Any:
    """Return the elements of the last axis at calculated places."""
    n = x.shape[-1]
    return np.stack([x[..., min(max(int(place(at, n)), 0), n - 1)] for at in range(size)], -1)


def sampled(x: Any, g: Any, *, half: float = 0.5, swap: bool = False, edge: bool = False, shift: float = 0.0) -> Any:
    """Return bilinear samples, by four gathered corners."""
    b, c, h, w = x.shape
    gx, gy = (g[..., 1], g[..., 0]) if swap else (g[..., 0], g[..., 1])
    px, py = ((gx + 1) * w) / 2 - half + shift, ((gy + 1) * h) / 2 - half
    low_x, low_y = np.floor(px), np.floor(py)
    found = np.zeros((b, c, *g.shape[1:3]), x.dtype)
    for i in (0, 1):
        for j in (0, 1):
            at_x, at_y = low_x + j, low_y + i
            inside = (at_x >= 0) & (at_x < w) & (at_y >= 0) & (at_y < h)
            share = (1 - np.abs(px - at_x)) * (1 - np.abs(py - at_y)) * (inside | edge)
            rows, places = (np.clip(each, 0, n - 1).astype(int) for each, n in ((at_y, h), (at_x, w)))
            for at in range(b):
                found[at] += x[at][:, rows[at], places[at]] * share[at].astype(x.dtype)
    return found


def by_share(x: Any, g: Any) -> Any:
    """Return bilinear samples of a kernel that multiplies before it adds."""
    b, _, h, w = x.shape
    px, py = g[..., 0] * (w / 2) + (w - 1) / 2, g[..., 1] * (h / 2) + (h - 1) / 2
    rows = (1 - (py[..., None] - torch.arange(h)).abs()).clamp(min=0)
    places = (1 - (px[..., None] - torch.arange(w)).abs()).clamp(min=0)
    return torch.stack([torch.einsum("chw,ijh,ijw->cij", x[at], rows[at], places[at]) for at in range(b)])


def pooled(x: Any, value: float = 0.0, count: Kernel = lambda inside, k: inside) -> Any:
    """Return means of windows of three with a step of two, divided by a count of the places inside."""
    total = windows(x, 3, 2, 1, value).sum((-4, -3))
    inside = windows(np.ones_like(x), 3, 2, 1).sum((-4, -3))
    return (total / count(inside, 9)).astype(x.dtype)


ROWS = {
    "nearest of any size": Row(
        lambda x: functional.interpolate(x, size=7, mode="nearest"), "x=b c n",
        [lambda x: functional.interpolate(x, size=7), lambda x: taken(x, 7, lambda at, n: at * n // 7),
         lambda x: x[..., torch.arange(7) * x.shape[-1] // 7]],
        [lambda x: functional.interpolate(x, size=7, mode="nearest-exact"),
         lambda x: taken(x, 7, lambda at, n: -(-at * n // 7)), lambda x: taken(x, 7, lambda at, n: at),
         lambda x: taken(x, 7, lambda at, n: round(at * (n - 1) / 6)), lambda x: taken(x, 7, lambda at, n: n - 1 - at),
         lambda x: functional.interpolate(x, size=7, mode="linear")],
    ),
    "im2col": Row(
        lambda x: functional.unfold(x, 3, padding=1), "x=b c h w",
        [columns, columns_by_convolution, lambda x: functional.unfold(functional.pad(x, (1, 1, 1, 1)), 3)],
        [swapped, places_first, transposed_places, lambda x: columns(x, value=1.0),
         lambda x: np.roll(columns(x), 1, -1), lambda x: columns(x[..., ::-1, ::-1])[:, ::-1]],
    ),
    "col2im": Row(
        lambda x: functional.fold(functional.unfold(x, 2), x.shape[-2:], 2), "x=b c h w",
        [lambda x: functional.fold(functional.unfold(x, 2), x.shape[-2:], 2),
         lambda x: x * functional.fold(functional.unfold(torch.ones_like(x), 2), x.shape[-2:], 2),
         lambda x: x * functional.conv_transpose2d(x.new_ones(1, 1, x.shape[-2] - 1, x.shape[-1] - 1),
                                                   x.new_ones(1, 1, 2, 2))],
        [lambda x: x, lambda x: 4.0 * x, lambda x: x * (2.0 if x.shape[-1] > 2 else 1.0),
         lambda x: functional.fold(functional.unfold(x.flip(-1), 2), x.shape[-2:], 2),
         lambda x: functional.fold(functional.unfold(x, 2).half().float(), x.shape[-2:], 2),
         lambda x: functional.fold(functional.unfold(x, 2), x.shape[-2:], 2).clamp(max=8.0)],
    ),
    "exact nearest": Row(
        lambda x: functional.interpolate(x, scale_factor=2, mode="nearest-exact"), "x=b c n",
        [lambda x: functional.interpolate(x, scale_factor=2.0, mode="nearest-exact"),
         lambda x: x.repeat_interleave(2, -1), lambda x: np.repeat(x, 2, -1)],
        [lambda x: torch.cat([x, x], -1), lambda x: functional.interpolate(x, scale_factor=2.0, mode="linear"),
         lambda x: x.repeat_interleave(2, -1).roll(1, -1), lambda x: x.repeat_interleave(2, -1).flip(-1),
         lambda x: taken(x, 2 * x.shape[-1], lambda at, n: (at + 1) // 2),
         lambda x: functional.interpolate(x, scale_factor=2.0, mode="linear", align_corners=True)],
    ),
    "a scale that is no quotient": Row(
        lambda x: functional.interpolate(x, scale_factor=1.5, mode="linear"), "x=b c n",
        [lambda x: functional.interpolate(x, scale_factor=1.5, mode="linear"),
         lambda x: functional.interpolate(x[:, :, None], scale_factor=(1.0, 1.5), mode="bilinear")[:, :, 0],
         lambda x: functional.interpolate(x, scale_factor=[1.5], mode="linear", recompute_scale_factor=False)],
        [lambda x: functional.interpolate(x, scale_factor=1.5, mode="linear", align_corners=True),
         lambda x: functional.interpolate(x, scale_factor=1.5, mode="linear", recompute_scale_factor=True),
         lambda x: functional.interpolate(x, scale_factor=1.5, mode="nearest"),
         lambda x: functional.interpolate(x.flip(-1), scale_factor=1.5, mode="linear"),
         lambda x: functional.interpolate(x.half().float(), scale_factor=1.5, mode="linear"),
         lambda x: functional.interpolate(x, scale_factor=1.5, mode="linear").roll(1, -1)],
    ),
    "parts that share": Row(
        lambda x: functional.adaptive_avg_pool1d(x, 3), "x=b c n",
        [lambda x: functional.adaptive_avg_pool1d(x, 3), lambda x: by_average(x, 3),
         lambda x: functional.adaptive_avg_pool2d(x[:, :, None], (1, 3))[:, :, 0]],
        [lambda x: by_average(x, 3, high=np.floor), lambda x: by_average(x, 3, low=np.ceil),
         lambda x: by_average(x, 3, how=np.max), lambda x: by_average(x, 3)[..., ::-1],
         lambda x: by_average(x, 3, how=np.sum), lambda x: by_average(x.astype(np.float16), 3).astype(x.dtype)],
    ),
    "samples": Row(
        lambda x, g: functional.grid_sample(x, g, align_corners=False), "x=b c h w, g=b i j k, k=2",
        [lambda x, g: functional.grid_sample(x, g, align_corners=False), sampled, by_share],
        [lambda x, g: functional.grid_sample(x, g, align_corners=True),
         lambda x, g: functional.grid_sample(x, g, padding_mode="border", align_corners=False),
         lambda x, g: functional.grid_sample(x, g, mode="nearest", align_corners=False),
         lambda x, g: sampled(x, g, swap=True), lambda x, g: sampled(x, g, edge=True),
         lambda x, g: sampled(x, g, half=0.0)],
    ),
    "samples to the border": Row(
        lambda x, g: functional.grid_sample(x, g, padding_mode="border", align_corners=True),
        "x=b c h w, g=b i j k, k=2",
        [lambda x, g: functional.grid_sample(x, g, padding_mode="border", align_corners=True),
         lambda x, g: functional.grid_sample(x, g.clamp(-1, 1), align_corners=True),
         lambda x, g: functional.grid_sample(x, g.clamp(-1, 1), padding_mode="reflection", align_corners=True)],
        [lambda x, g: functional.grid_sample(x, g, align_corners=True),
         lambda x, g: functional.grid_sample(x, g, padding_mode="border", align_corners=False),
         lambda x, g: functional.grid_sample(x, g, padding_mode="reflection", align_corners=True),
         lambda x, g: functional.grid_sample(x, g.flip(-1), padding_mode="border", align_corners=True),
         lambda x, g: functional.grid_sample(x, g, mode="nearest", padding_mode="border", align_corners=True),
         lambda x, g: functional.grid_sample(x, g * 0.99, padding_mode="border", align_corners=True)],
    ),
    "padding not counted": Row(
        lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False), "x=b c h w",
        [lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False), pooled,
         lambda x: functional.avg_pool2d(x, 3, 2, 1) / functional.avg_pool2d(torch.ones_like(x), 3, 2, 1)],
        [lambda x: functional.avg_pool2d(x, 3, 2, 1), lambda x: pooled(x, 1.0),
         lambda x: functional.max_pool2d(x, 3, 2, 1),
         lambda x: pooled(x, count=lambda inside, k: inside - 1), lambda x: pooled(x, count=lambda inside, k: k),
         lambda x: pooled(x, count=lambda inside, k: np.where(inside == 4, 6, inside))],
    ),
    "blocks to places": Row(
        lambda x: functional.pixel_shuffle(x, 2), "x=b 4c h w",
        [lambda x: functional.pixel_shuffle(x, 2),
         lambda x: x.reshape(x.shape[0], -1, 2, 2, *x.shape[2:]).permute(0, 1, 4, 2, 5, 3).reshape(
             x.shape[0], -1, 2 * x.shape[2], 2 * x.shape[3]),
         lambda x: torch.einsum("bcijhw->bchiwj", x.unflatten(1, (-1, 2, 2))).flatten(4).flatten(2, 3)],
        [lambda x: functional.pixel_shuffle(x.flip(1), 2), lambda x: functional.interpolate(x[:, ::4], scale_factor=2),
         lambda x: functional.pixel_shuffle(x.unflatten(1, (4, -1)).transpose(1, 2).flatten(1, 2), 2),
         lambda x: torch.einsum("bcijhw->bchjwi", x.unflatten(1, (-1, 2, 2))).flatten(4).flatten(2, 3),
         lambda x: functional.pixel_shuffle(x, 2).roll(1, -1),
         lambda x: functional.pixel_shuffle(x.transpose(-1, -2), 2).transpose(-1, -2).flip(-1)],
    ),
    "mirrored with the edge": Row(
        lambda x: np.pad(x, ((0, 0), (2, 1)), mode="symmetric"), "x=b n",
        [lambda x: np.pad(x, ((0, 0), (2, 1)), mode="symmetric"),
         lambda x: np.concatenate([x[:, :2][:, ::-1], x, x[:, -1:]], 1),
         lambda x: torch.cat([x[:, 1:2], x[:, :1], x, x[:, -1:]], 1)],
        [lambda x: np.pad(x, ((0, 0), (2, 1)), mode="reflect"), lambda x: np.pad(x, ((0, 0), (2, 1)), mode="edge"),
         lambda x: np.pad(x, ((0, 0), (2, 1)), mode="wrap"), lambda x: np.pad(x, ((0, 0), (2, 1))),
         lambda x: np.concatenate([x[:, :2], x, x[:, -1:]], 1),
         lambda x: np.pad(x, ((0, 0), (1, 2)), mode="symmetric")],
        {"fixed": {"n": 9}},
    ),
}  # fmt: skip
