"""Convolutions, padding and resizing: a right kernel passes, and one of other windows does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz.tests.common.told import fails

F = torch.nn.functional


def _ends(ends: Any, x: Any, w: Any, dilation: int) -> list[int]:
    """How many places are padded in front of each axis and behind it, for F.pad."""
    if ends in ("same", "same, the longer end first"):
        wholes = [dilation * (size - 1) for size in w.shape[2:]]
        return [
            end
            for whole in reversed(wholes)
            for end in (whole // 2, whole - whole // 2)[:: 1 if ends == "same" else -1]
        ]
    each = [ends] * (x.dim() - 2) if isinstance(ends, int) else [*ends]
    return [end for one in reversed(each) for end in (one, one)]


def _slid(x: Any, w: Any, b: Any, *, stride: int = 1, padding: Any = 0, dilation: int = 1, groups: int = 1) -> Any:
    """A sum over places in windows, one after the other."""
    x = F.pad(x, _ends(padding, x, w, dilation))
    spans = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    parts, own = x.reshape(len(x), groups, -1, *x.shape[2:]), w.reshape(groups, -1, *w.shape[1:])
    found: Any = 0.0
    for at in np.ndindex(*w.shape[2:]):
        where = [
            slice(dilation * k, dilation * k + stride * (n - 1) + 1, stride) for k, n in zip(at, spans, strict=True)
        ]
        some, factors = parts[(slice(None), slice(None), slice(None), *where)], own[(..., *at)]
        found = found + torch.einsum("bgc...,gmc->bgm...", some, factors)
    found = found.reshape(len(x), w.shape[0], *spans)
    return found if b is None else found + b.reshape(-1, *(1 for _ in spans))


Kernel = Callable[..., Any]


def _pair(name: str, wrong: dict[str, Any], **given: Any) -> tuple[Kernel, Kernel, Kernel]:
    """A convolution, a kernel that calculates it, and one that takes something of it for another thing."""
    if name == "w":

        def reference(x: Any, w: Any) -> Any:
            return (F.conv1d if x.dim() == 3 else F.conv2d)(x, w, **given)
    else:

        def reference(x: Any, w: Any, b: Any) -> Any:  # type: ignore[misc]
            return (F.conv1d if x.dim() == 3 else F.conv2d)(x, w, b, **given)

    def right(x: Any, w: Any, b: Any = None) -> Any:
        return _slid(x, w, b, **given)

    def other(x: Any, w: Any, b: Any = None) -> Any:
        changed = {**given, **wrong.get("given", {})}
        found, must = _slid(x, w, b if wrong.get("bias", True) else None, **changed), right(x, w, b)
        ends = [(0, m - n) for n, m in zip(found.shape[:1:-1], must.shape[:1:-1], strict=True)]
        return F.pad(found, [end for pair in ends for end in pair])

    return reference, right, other


ONE, TWO = "x=b c n, w=m c k", "x=b c h v, w=m c r s"
PAIRS: dict[str, tuple[tuple[Kernel, Kernel, Kernel], str, dict[str, int]]] = {
    "same": (_pair("w", {"given": {"padding": "same, the longer end first"}}, padding="same"), ONE, {}),
    "same with steps inside": (_pair("w", {"given": {"dilation": 1}}, padding="same", dilation=2), ONE, {}),
    "groups": (_pair("b", {"bias": False}, groups=2), "x=b 2c n, w=2m c k, b=2m", {}),
    "steps inside": (_pair("w", {"given": {"dilation": 2}}, dilation=3, padding=3), ONE, {"k": 3}),
    "steps": (_pair("b", {"given": {"padding": 2}}, stride=3, padding=1), ONE + ", b=m", {}),
    "two ends": (_pair("b", {"given": {"padding": (2, 1)}}, padding=(1, 2)), TWO + ", b=m", {"r": 3, "s": 5}),
    "planes": (
        _pair("w", {"given": {"dilation": 1}}, padding=1, stride=2, dilation=2, groups=2),
        "x=b 2c h v, w=2m c r s",
        {"r": 3, "s": 2},
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_convolution_is_told_from_one_of_other_windows(name: str) -> None:
    (reference, right, other), shapes, fixed = PAIRS[name]
    given: Any = {"shapes": shapes, "fixed": fixed, "seed": 1}
    fuzz.check(right, reference=reference, max_cases=8, **given)
    with pytest.raises(fuzz.CheckFailed, match="FAIL  other  "):  # by its values, or a term that it has not
        fuzz.check(other, reference=reference, max_cases=40, **given)


@pytest.mark.parametrize("mode", ["constant", "both ends", "before alone"])
def test_padding_is_told_from_padding_at_the_other_end(mode: str) -> None:
    ends = {"constant": (1, 2), "both ends": (2, 1, 0, 3), "before alone": (3, 0)}[mode]

    def padded(x: Any) -> Any:
        return F.pad(x, ends, value=0.5)

    def right(x: Any) -> Any:
        shape = [*x.shape]
        for at, (before, after) in enumerate(zip(ends[::2], ends[1::2], strict=True), 1):
            shape[-at] += before + after
        found = torch.full(shape, 0.5, dtype=x.dtype)
        found[
            tuple(
                slice(b, b + n)
                for b, n in zip([0] * (x.dim() - len(ends) // 2) + [*ends[::2]][::-1], x.shape, strict=True)
            )
        ] = x
        return found

    def turned(x: Any) -> Any:
        return right(x.flip(-1)).flip(-1)

    fuzz.check(right, reference=padded, shapes="x=b m n", seed=1, max_cases=8)
    with fails():
        fuzz.check(turned, reference=padded, shapes="x=b m n", seed=1, max_cases=8)


def _between(x: Any, size: int, *, half: float = 0.5) -> Any:
    """Along the last axis, from the elements on both sides."""
    n = x.shape[-1]
    place = ((torch.arange(size) + half) * (n / size) - half).clamp(min=0)
    low = place.floor().long().clamp(max=n - 1)
    share = (place - low).to(x.dtype)
    return (1.0 - share) * x[..., low] + share * x[..., (low + 1).clamp(max=n - 1)]


@pytest.mark.parametrize(("shapes", "times"), [("x=b c h v", 3), ("x=b c 3h 3v", 1 / 3), ("x=b c 2h 2v", 1.5)])
def test_a_plane_is_resized_by_places_however_they_are_rounded(shapes: str, times: float) -> None:
    def resized(x: Any) -> Any:
        return F.interpolate(x, scale_factor=times, mode="bilinear")

    def by_axes(x: Any, half: float = 0.5) -> Any:
        rows = _between(x.transpose(-1, -2), round(x.shape[-2] * times), half=half).transpose(-1, -2)
        return _between(rows, round(x.shape[-1] * times), half=half)

    def from_corners(x: Any) -> Any:
        return by_axes(x, half=0.0)

    fuzz.check(by_axes, reference=resized, shapes=shapes, seed=1, max_cases=8)
    with fails("from_corners"):
        fuzz.check(from_corners, reference=resized, shapes=shapes, seed=1, max_cases=8)


def test_a_bicubic_resize_is_told_from_one_by_another_spline() -> None:
    def resized(x: Any) -> Any:
        return F.interpolate(x, scale_factor=3, mode="bicubic")

    def by_axes(x: Any, a: float = -0.75) -> Any:
        for _ in range(2):
            n = x.shape[-2]
            place = (torch.arange(3 * n) + 0.5) / 3 - 0.5
            low, total = place.floor().long(), x.new_zeros(())
            for step in range(4):
                away = (place - (low - 1 + step)).abs()[:, None]
                inner = ((a + 2.0) * away - (a + 3.0)) * away * away + 1.0
                share = inner if step in (1, 2) else ((a * away - 5.0 * a) * away + 8.0 * a) * away - 4.0 * a
                total = total + share * x[..., (low - 1 + step).clamp(0, n - 1), :]
            x = total.transpose(-1, -2)
        return x

    def catmull(x: Any) -> Any:
        return by_axes(x, -0.5)

    fuzz.check(by_axes, reference=resized, shapes="x=b c h v", seed=1, max_cases=8)
    fuzz.check(resized, reference=resized, shapes="x=b c h v", seed=1, max_cases=8)
    with fails("catmull"):
        fuzz.check(catmull, reference=resized, shapes="x=b c h v", seed=1, max_cases=8)


_PLACES: dict[str, Callable[[Any, int], Any]] = {
    "circular": lambda place, n: place % n,
    "reflect": lambda place, n: n - 1 - (n - 1 - place.abs()).abs(),
    "replicate": lambda place, n: place.clamp(0, n - 1),
}


@pytest.mark.parametrize("mode", _PLACES)
def test_a_convolution_of_padded_planes_is_told_from_one_of_planes_padded_otherwise(mode: str) -> None:
    def reference(x: Any, w: Any) -> Any:
        half = w.shape[-1] // 2
        return F.conv2d(F.pad(x, (half, half, 1, 0), mode=mode), w)

    def right(x: Any, w: Any, how: str = mode) -> Any:
        half, (h, v) = w.shape[-1] // 2, x.shape[2:]
        rows, columns = torch.arange(-1, h), torch.arange(-half, v + half)
        places = _PLACES[how]
        return _slid(x[:, :, places(rows, h)][..., places(columns, v)], w, None)

    def otherwise(x: Any, w: Any) -> Any:
        return right(x, w, "reflect" if mode == "circular" else "circular")

    given: Any = {"reference": reference, "shapes": TWO, "fixed": {"r": 2}, "seed": 1}
    fuzz.check(right, max_cases=8, **given)
    with pytest.raises(fuzz.CheckFailed, match="FAIL  otherwise  "):
        fuzz.check(otherwise, max_cases=40, **given)
