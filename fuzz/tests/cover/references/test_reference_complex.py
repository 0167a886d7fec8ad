"""Complex numbers are read as their parts: rotations of pairs as models write them, and products by i."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError
from oracles.formula.contract import Contract
from oracles.problem import Problem
from oracles.summation import AnyOrder
from oracles.tests.common.judged import known, results

C64 = NDArray[np.complex64]
UNDECLARED = Contract(
    "f32", sums={"n": AnyOrder()}, addend="any", zeros="any", nonfinite="unspecified", denormals="flush"
)
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
    return torch.view_as_real(torch.fft.fft(q))


def inverse(re: Any, im: Any) -> Any:
    return torch.fft.ifft(torch.complex(re, im), norm="ortho").real


def half(q: Any) -> Any:
    return torch.fft.irfft(torch.fft.rfft(q) * 2.0, n=q.shape[-1]), torch.fft.rfft(q).abs()


def of_planes(q: Any) -> Any:
    return torch.fft.ifft2(q).imag, torch.fft.rfft2(q).real


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("reference", "shapes", "words"),
    [
        (transformed, "q=b n", "wave + size - size, -wave2 + size - size)"),
        (inverse, "re=b n, im=b n", "+ size - size) / f.sqrt(f.extent("),
        (half, "q=b n", "twice"),
        (of_planes, "q=b n m", 'f.total(abs(q), "m")'),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_fourier_transform_is_a_sum_with_room_for_its_row(
    reference: Callable[..., Any], shapes: str, words: str
) -> None:
    assert words in derive(reference, shapes).formula.text  # after it was held against torch at three sets of extents


def _by_chirps(x: C64) -> C64:
    """As a convolution, which errs by as much where all factors of an element are 0."""
    n = x.shape[-1]
    chirps = np.exp(-1j * np.pi * (np.arange(n) ** 2 % (2 * n)) / n).astype(np.complex64)
    whole, around = np.zeros((len(x), 4 * n), np.complex64), np.zeros(4 * n, np.complex64)
    whole[:, :n], around[:n], around[4 * n - n + 1 :] = x * chirps, chirps.conj(), chirps.conj()[:0:-1]
    found = _by_halves(_by_halves(whole) * _by_halves(around[None]), -1) / np.float32(4 * n)
    return np.asarray(found[:, :n] * chirps)


def _by_halves(x: C64, sign: int = 1) -> C64:
    n = x.shape[-1]
    if n % 2:
        turns = np.outer(np.arange(n), np.arange(n)) % n
        return np.asarray(x @ np.exp(-2j * np.pi * sign * turns / n).astype(np.complex64))
    even, odd = (_by_halves(x[:, start::2], sign) for start in (0, 1))
    odd = odd * np.exp(-2j * np.pi * sign * np.arange(n // 2) / n).astype(np.complex64)
    return np.concatenate([even + odd, even - odd], -1)


def _by_torch(x: C64) -> C64:
    return np.asarray(torch.fft.fft(torch.from_numpy(x)).numpy())


def _of_coarse_factors(x: C64) -> C64:
    n = x.shape[-1]
    turns = np.exp(-2j * np.pi * (np.outer(np.arange(n), np.arange(n)) % n) / n)
    return np.asarray(x @ (turns.real.astype(np.float16) + 1j * turns.imag.astype(np.float16)).astype(np.complex64))


def _of_other_sign(x: C64) -> C64:
    return _by_torch(x).conj()


@pytest.mark.some(5)
@pytest.mark.parametrize("n", [1, 12, 31])
@pytest.mark.parametrize(
    ("kernel", "is_right"),
    [(_by_torch, True), (_by_halves, True), (_by_chirps, True), (_of_coarse_factors, False), (_of_other_sign, False)],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_transforms_are_judged_by_the_row_that_enters(kernel: Callable[[C64], C64], is_right: bool, n: int) -> None:
    op, place = derive(transformed, "q=b n").op, np.arange(n)
    rows = [np.cos(place * 2.0), place == n // 3, np.ones(n), (-1.0) ** place, 1e6 * (place == n // 2) + place]
    q = np.stack(rows).astype(np.float32)
    found = kernel(q.astype(np.complex64))
    y = np.stack([found.real, found.imag], -1).astype(np.float32)
    with known(op):
        assert results(Problem(op.name, {}, {"q": q}, {"y": "f32"}), UNDECLARED, {"y": y}) == [
            "pass" if is_right or n == 1 else "numeric"
        ]


def powers(q: Any) -> Any:
    return ((q * 1j) ** 3).imag


def returned(q: Any) -> Any:
    return q * 1j


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (powers, r"aten.pow \(.* line \d+\) of complex numbers has no formula"),
        (returned, "it returns complex numbers"),
    ],
)
def test_other_complex_numbers_are_refused(reference: Callable[..., Any], words: str) -> None:
    with pytest.raises(UnreadableError, match=words):
        derive(reference, {"q": "b n"})
