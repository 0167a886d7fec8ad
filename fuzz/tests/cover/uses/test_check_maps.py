"""Kernels of convolutions and pools are held against torch's own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fuzz

F = torch.nn.functional


pytestmark = pytest.mark.usefixtures("quick_checks")


def conv(x: Any, w: Any, b: Any) -> Any:
    return F.conv1d(x, w, b, stride=2, padding=1)


def _unfolded(
    x: Any, w: Any, b: Any, *, pad: tuple[int, int] = (1, 1), step: int = 2, channels: int | None = None
) -> Any:
    """A product of matrices, of what lies in each window."""
    windows = F.pad(x, pad).unfold(2, w.shape[2], 1)[:, :, ::2]
    if step != 2:  # all but the first two windows one place too early
        places = torch.clamp(torch.arange(windows.shape[2]) * 2 - (torch.arange(windows.shape[2]) > 1).long(), min=0)
        windows = F.pad(x, pad).unfold(2, w.shape[2], 1)[:, :, places]
    c = x.shape[1] if channels is None else channels
    return torch.einsum("bcok,mck->bmo", windows[:, :c], w[:, :c]) + b[:, None]


def one_place_off(x: Any, w: Any, b: Any) -> Any:
    return _unfolded(x, w, b, pad=(0, 2))


def step_forgotten(x: Any, w: Any, b: Any) -> Any:
    return _unfolded(x, w, b, step=1)


def tail_dropped(x: Any, w: Any, b: Any) -> Any:
    c = x.shape[1]
    return _unfolded(x, w, b, channels=c // 4 * 4 if c > 4 else c)


def pool(x: Any) -> Any:
    return F.max_pool1d(x, 3, stride=2, padding=1)


def pool_with_zeros(x: Any) -> Any:
    """Outside there is a zero, which is larger than what is negative."""
    return F.pad(x, (1, 1)).unfold(2, 3, 2).amax(-1)


def _check(kernel: Callable[..., Any], reference: Callable[..., Any], shapes: str, max_cases: int = 24) -> None:
    fuzz.check(kernel, reference=reference, shapes=shapes, max_cases=max_cases, seed=1)


CONV = "x=b c n, w=m c k, b=m"


def pool_by_windows(x: Any) -> Any:
    return F.pad(x, (1, 1), value=-torch.inf).unfold(2, 3, 2).amax(-1)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("kernel", "reference", "shapes"),
    [(conv, conv, CONV), (_unfolded, conv, CONV), (pool_by_windows, pool, "x=b c n")],
    ids=["conv", "unfolded", "pool"],
)
def test_what_computes_the_same_passes(kernel: Callable[..., Any], reference: Callable[..., Any], shapes: str) -> None:
    _check(kernel, reference, shapes)


@pytest.mark.whole
@pytest.mark.parametrize("kernel", [one_place_off, step_forgotten, tail_dropped], ids=lambda each: each.__name__)
def test_a_wrong_window_is_found(kernel: Callable[..., Any]) -> None:
    with pytest.raises(fuzz.CheckFailed, match=f"FAIL  {kernel.__name__}  wrong values"):
        _check(kernel, conv, CONV, max_cases=12)


@pytest.mark.whole
def test_what_lies_outside_is_found() -> None:
    with pytest.raises(fuzz.CheckFailed, match="FAIL  pool_with_zeros  wrong values"):
        _check(pool_with_zeros, pool, "x=b c n")


def between_ends(x: Any) -> Any:
    return F.interpolate(x, scale_factor=2, mode="linear", align_corners=True)


def by_shares(x: Any, *, more: int = 1) -> Any:
    """Between the elements on both sides of each place."""
    n = x.shape[-1]
    place = torch.arange(2 * n) * ((n - 1) / (2 * n - more))
    low = place.floor().long().clamp(max=n - 1)
    share = place - low
    return (1.0 - share) * x[..., low] + share * x[..., (low + 1).clamp(max=n - 1)]


def steps_miscounted(x: Any) -> Any:
    return by_shares(x, more=0)


@pytest.mark.some(1)
@pytest.mark.parametrize("kernel", [by_shares, between_ends], ids=lambda each: each.__name__)
def test_places_between_ends_pass_however_they_are_rounded(kernel: Callable[..., Any]) -> None:
    _check(kernel, between_ends, "x=b c n", max_cases=8)


def test_a_wrong_number_of_steps_between_ends_is_found() -> None:
    with pytest.raises(fuzz.CheckFailed, match="wrong values"):
        _check(steps_miscounted, between_ends, "x=b c n", max_cases=8)
