"""Complex numbers are read as their parts: rotations of pairs as models write them, and products by i."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError

HALVES = {"q": "b s d", "cos": "s d/2", "sin": "s d/2"}


def _pairs(q: Any) -> Any:
    return torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))


def rotated(q: Any, cos: Any, sin: Any) -> Any:
    return torch.view_as_real(_pairs(q) * torch.complex(cos, sin)).flatten(-2).type_as(q)


def by_places(q: Any) -> Any:
    turns = torch.outer(torch.arange(q.shape[1]).float(), 1.0 / 10000.0 ** (torch.arange(0, 8, 2) / 8))
    return torch.view_as_real(_pairs(q) * torch.polar(torch.ones_like(turns), turns)).flatten(-2)


def by_pairs(q: Any, turns: Any) -> Any:
    return torch.view_as_real(_pairs(q) * torch.view_as_complex(turns).conj()).flatten(-2)


def turned(q: Any) -> Any:
    return (q * 1j).imag + (q * (2 - 1j)).real


def waves(q: Any, a: Any) -> Any:
    z = torch.exp(1j * a) / 2.0 - 1j
    return (q * -z).real + (z + q).abs()


@pytest.mark.parametrize(
    ("reference", "shapes", "fixed", "words"),
    [
        (rotated, HALVES, {}, "taken2 * cos - taken3 * sin, taken2 * sin + taken3 * cos"),
        (by_places, {"q": "b s d"}, {"d": 8}, "f.cos("),
        (by_pairs, {"q": "b s d", "turns": "s h c"}, {"d": 8, "h": 4, "c": 2}, "f.take("),
        (turned, {"q": "b n"}, {}, "q * 2.0"),
        (waves, {"q": "b n", "a": "n"}, {}, "f.sin(a)"),
    ],
)
def test_complex_numbers_are_two(
    reference: Callable[..., Any], shapes: dict[str, str], fixed: dict[str, int], words: str
) -> None:
    assert words in derive(reference, shapes, fixed=fixed).formula.text


def transformed(q: Any) -> Any:
    return torch.fft.fft(q).abs()


def powers(q: Any) -> Any:
    return ((q * 1j) ** 3).imag


def returned(q: Any) -> Any:
    return q * 1j


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (transformed, r"aten._fft_r2c \(.* line \d+\) has no formula"),
        (powers, r"aten.pow \(.* line \d+\) of complex numbers has no formula"),
        (returned, "it returns complex numbers"),
    ],
)
def test_other_complex_numbers_are_refused(reference: Callable[..., Any], words: str) -> None:
    with pytest.raises(UnreadableError, match=words):
        derive(reference, {"q": "b n"})
