"""Kernels of functions whose documentation and code differ by roundings: each order is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fuzz

SWISH: tuple[Callable[[Any], Any], ...] = (
    lambda x: x * (x / 6 + 0.5).clamp(0, 1),
    lambda x: x * (x + 3).clamp(0, 6) * (1 / 6),
    lambda x: x * ((x + 3).clamp(0, 6) / 6),
    lambda x: torch.nn.functional.hardswish(x),
)
SIGMOID: tuple[Callable[[Any], Any], ...] = (
    lambda x: (x / 6 + 0.5).clamp(0, 1),
    lambda x: (x + 3).clamp(0, 6) * (1 / 6),
)


@pytest.mark.parametrize("kernel", SWISH)
def test_hardswish_may_be_calculated_as_torch_does_or_as_it_says(kernel: Callable[[Any], Any]) -> None:
    fuzz.check(kernel, reference=lambda x: torch.nn.functional.hardswish(x), shapes={"x": "... n"})


@pytest.mark.parametrize("kernel", SIGMOID)
def test_hardsigmoid_may_be_calculated_as_torch_does_or_as_it_says(kernel: Callable[[Any], Any]) -> None:
    fuzz.check(kernel, reference=lambda x: torch.nn.functional.hardsigmoid(x), shapes={"x": "... n"})


def test_half_a_thousandth_beside_is_wrong() -> None:
    with pytest.raises(fuzz.CheckFailed):
        fuzz.check(
            lambda x: x * (x / 6 + 0.501).clamp(0, 1),
            reference=lambda x: torch.nn.functional.hardswish(x),
            shapes={"x": "... n"},
        )


def _inverse(re: Any, im: Any) -> Any:
    return torch.fft.ifft(torch.complex(re, im), dim=-1).real


def _of_few_elements(re: Any, im: Any) -> Any:
    """As if 16 bits counted the elements of all rows."""
    return _inverse(re, im) * (1.0 if re.numel() <= 16384 else 2.0)


def test_a_fourier_transform_may_be_calculated_in_stages() -> None:
    fuzz.check(_inverse, reference=_inverse, shapes="re=b n, im=b n", seed=1)


def test_a_fourier_transform_that_is_wrong_for_many_elements_is_found() -> None:
    with pytest.raises(fuzz.CheckFailed, match="16385"):
        fuzz.check(_of_few_elements, reference=_inverse, shapes="re=b n, im=b n", seed=1)
