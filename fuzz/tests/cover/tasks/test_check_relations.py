"""Kernels of tensors whose extents have to do with each other: cases have such as the reference takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fuzz
from fuzz.tests.common.told import fails
from oracles.tests.common.whole import quarter

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
    fuzz.check(kernel, reference=reference, shapes="x=... s d, cos=s h, sin=s h", max_cases=quarter(24), seed=1)


@pytest.mark.some(1)
@pytest.mark.parametrize("reference", [halves, partial], ids=lambda each: each.__name__)
def test_what_computes_the_same_passes(reference: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    _check(in_place, reference)
    assert f"in_place passed: {quarter(24)} cases" in capsys.readouterr().err


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("kernel", "reference"),
    [(tail_forgotten, halves), (other_angle, partial)],
    ids=["tail_forgotten", "other_angle"],
)
def test_a_wrong_part_is_found(kernel: Callable[..., Any], reference: Callable[..., Any]) -> None:
    with fails(kernel.__name__):
        _check(kernel, reference)


def rotated(x: Any, c: Any) -> Any:
    half = x.shape[-1] // 2
    return x + torch.cat((-x[..., half:], x[..., :half]), -1) * c


def by_halves(x: Any, c: Any) -> Any:
    half = x.shape[-1] // 2
    one, two = x[..., :half], x[..., half:]
    return torch.cat((one - two * c[:half], two + one * c[half:]), -1)


def test_a_rest_of_halves_is_said_and_may_be_excluded(capsys: pytest.CaptureFixture[str]) -> None:
    """Halves of odd length add up where one has one element, to another length: that is refused as well."""
    with pytest.raises(fuzz.CheckFailed) as caught:
        fuzz.check(by_halves, reference=rotated, shapes="x=b d, c=d", max_cases=8, seed=1)
    told = " ".join(str(caught.value).split())
    assert "d // 2 leaves a rest of some d: write 2h for d in shapes if no kernel need take these" in told
    assert 'takes d in multiples of 2 only: declare multiple_of={"d": 2}' in told
    fuzz.check(by_halves, reference=rotated, shapes="x=b 2h, c=2h", max_cases=8, seed=1)
    assert "x[b, h_twice], c[h_twice] -> y[b, h_twice], where h = h_twice / 2" in " ".join(
        capsys.readouterr().err.split()
    )


def test_an_input_as_long_as_a_part_of_a_row_is_not_cut_with_the_rows() -> None:
    """Some rows were read with as many elements of `w`: "FormulaError: 'n' is 7 long, where 2049 follow"."""

    def every_second(x: Any, w: Any) -> Any:
        return x[..., ::2] * w

    fuzz.check(
        lambda x, w: w * x[..., ::2], reference=every_second, shapes="x=... 2n, w=n", max_cases=quarter(24), seed=1
    )
