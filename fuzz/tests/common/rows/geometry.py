"""Geometry: convolutions, pooling, resizing, padding, samples of a grid."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np
import torch
from torch.nn import functional as fn

import fuzz
from fuzz.tests.common.rows.table import right, wrong


def grouped(x, w):
    return fn.conv1d(x, w, groups=2)


def dilated(x, w):
    return fn.conv2d(x, w, padding=2, dilation=2)


def transposed(x, w):
    return fn.conv_transpose1d(x, w, stride=2)


def averaged(x):
    return fn.avg_pool1d(x, 3, stride=2, padding=1, count_include_pad=False)


def largest(x):
    return fn.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)


def resized(x):
    return fn.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def nearest(x):
    return fn.interpolate(x, size=7, mode="nearest")


def reflected(x):
    return fn.pad(x, (2, 2), mode="reflect")


def sampled(x, grid):
    return fn.grid_sample(x, grid, align_corners=False)


def _of(reference, shapes, **more):
    def checks(kernel, seed):
        fuzz.check(kernel, reference=reference, shapes=shapes, seed=seed, **more)

    return checks


checks_grouped = _of(grouped, "x=b 2c n, w=2m c k")
checks_dilated = _of(dilated, "x=b c h w, w=m c k k, k=3")
checks_transposed = _of(transposed, "x=b c n, w=c m k")
checks_averaged = _of(averaged, "x=b c n")
checks_largest = _of(largest, "x=b c h w")
checks_resized = _of(resized, "x=b c h w")


@right(checks_grouped)
def grouped_by_columns(x, w):
    k, c = w.shape[-1], x.shape[1]
    windows = np.lib.stride_tricks.sliding_window_view(x, k, axis=-1)
    halves = []
    for g in range(2):
        own = windows[:, g * c // 2 : (g + 1) * c // 2]
        halves.append(np.einsum("bcnk,mck->bmn", own, w[g * len(w) // 2 : (g + 1) * len(w) // 2]))
    return np.concatenate(halves, 1)


@right(checks_averaged)
def averaged_by_windows(x):
    n = x.shape[-1]
    parts = [x[..., max(i - 1, 0) : min(i + 2, n)].mean(-1) for i in range(0, n, 2)]
    return torch.stack(parts, -1)


def _between(x, axis):
    """Twice as long, by the shares 1/4 and 3/4."""
    n = x.shape[axis]
    before, after = np.arange(n) - 1, np.arange(n) + 1
    low, high = np.take(x, np.maximum(before, 0), axis), np.take(x, np.minimum(after, n - 1), axis)
    both = np.stack([0.25 * low + 0.75 * x, 0.75 * x + 0.25 * high], axis + 1)
    return both.reshape(*x.shape[:axis], 2 * n, *x.shape[axis + 1 :])


@right(checks_resized)
def resized_by_axes(x):
    return _between(_between(x, 2), 3)


@right(checks_transposed)
def transposed_by_scatter(x, w):
    n, k = x.shape[-1], w.shape[-1]
    y = torch.zeros(x.shape[0], w.shape[1], 2 * (n - 1) + k)
    for j in range(k):
        y[..., j : j + 2 * n - 1 : 2] += torch.einsum("bcn,cm->bmn", x, w[:, :, j])
    return y


@wrong("all groups have the channels of the first", checks_grouped)
def grouped_as_one(x, w):
    return fn.conv1d(x[:, : x.shape[1] // 2], w)


@wrong("rows of the window are next to each other", checks_dilated)
def dilated_along_rows(x, w):
    return fn.conv2d(x, w, padding=(1, 2), dilation=(1, 2))


@wrong("the window of the end is divided by 3 also where it has 2 elements", checks_averaged)
def averaged_at_the_end_by_three(x):
    y = fn.avg_pool1d(x, 3, stride=2, padding=1, count_include_pad=False)
    if x.shape[-1] % 2:
        y[..., -1] = x[..., -2:].sum(-1) / 3
    return y


@wrong("0 is in the windows at the ends", checks_largest)
def largest_with_zeros(x):
    inside = fn.max_pool2d(fn.pad(x, (1, 1, 1, 1)), 3, stride=2, ceil_mode=True)
    whole = fn.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)
    return inside[..., : whole.shape[-2], : whole.shape[-1]]


@wrong("corners are aligned", checks_resized)
def resized_with_corners(x):
    return fn.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)


@wrong("the nearest place is rounded, not cut off", _of(nearest, "x=b c n"))
def nearest_by_rounding(x):
    n = x.shape[-1]
    return x[..., (torch.arange(7) * n / 7).round().long().clamp(max=n - 1)]


@wrong("the element at the end is repeated", _of(reflected, "x=b c n"))
def reflected_with_the_end(x):
    return np.pad(x, ((0, 0), (0, 0), (2, 2)), mode="symmetric")


@wrong("the last column has no right neighbour, and the whole weight", _of(sampled, "x=b c h w, grid=b p q xy, xy=2"))
def sampled_with_border(x, grid):
    return fn.grid_sample(x, grid, padding_mode="border", align_corners=False)
