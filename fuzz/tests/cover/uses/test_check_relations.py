"""Kernels of tensors whose extents have to do with each other: cases have such as the reference takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fuzz

pytestmark = pytest.mark.usefixtures("quick_checks")


def halves(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    one, two = x[..., :half], x[..., half:]
    return torch.cat((one * cos - two * sin, two * cos + one * sin), -1)


def partial(x: Any, cos: Any, sin: Any) -> Any:
    turned = 2 * cos.shape[-1]
    return torch.cat((halves(x[..., :turned], cos, sin), x[..., turned:]), -1)


def in_place(x: Any, cos: Any, sin: Any) -> Any:
    y, half = x.clone(), cos.shape[-1]
    y[..., :half] = x[..., :half] * cos - x[..., half : 2 * half] * sin
    y[..., half : 2 * half] = x[..., half : 2 * half] * cos + x[..., :half] * sin
    return y


def tail_forgotten(x: Any, cos: Any, sin: Any) -> Any:
    half, whole = cos.shape[-1], cos.shape[-1] // 4 * 4
    y = in_place(x, cos, sin)
    y[..., whole:half] = x[..., whole:half] if half > 4 else y[..., whole:half]
    return y


def other_angle(x: Any, cos: Any, sin: Any) -> Any:
    return in_place(x, cos, torch.cat((sin[..., :-1], -sin[..., -1:]), -1))


def _check(kernel: Callable[..., Any], reference: Callable[..., Any]) -> None:
    fuzz.check(kernel, reference=reference, shapes="x=... s d, cos=s h, sin=s h", max_cases=24, seed=1)


@pytest.mark.parametrize("reference", [halves, partial], ids=lambda each: each.__name__)
def test_what_computes_the_same_passes(reference: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    _check(in_place, reference)
    assert "in_place passed: 24 cases" in capsys.readouterr().err


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("kernel", "reference"),
    [(tail_forgotten, halves), (other_angle, partial)],
    ids=["tail_forgotten", "other_angle"],
)
def test_a_wrong_part_is_found(kernel: Callable[..., Any], reference: Callable[..., Any]) -> None:
    with pytest.raises(fuzz.CheckFailed, match=f"FAIL  {kernel.__name__}  wrong values"):
        _check(kernel, reference)
