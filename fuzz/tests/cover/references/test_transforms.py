"""Transforms that a reference writes out are judged by the row that enters, as fast kernels need it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fuzz.references.derive import derive
from fuzz.references.rerun import replayed, ways_of
from fuzz.references.transforms import is_transform
from fuzz.tests.cover.references.test_reference_complex import UNDECLARED
from oracles.problem import Problem
from oracles.tests.common.judged import known, results

F32 = NDArray[np.float32]


def _angles(n: int, kind: Any = torch.float32) -> Any:
    k = torch.arange(n, dtype=kind)
    return (2 * torch.pi / n) * (k[:, None] * k % n)


def by_tables(x: Any) -> Any:
    a = _angles(x.shape[-1])
    return x @ torch.cos(a), -(x @ torch.sin(a))


def by_sums(x: Any) -> Any:
    a = _angles(x.shape[-1])
    return (x[..., None, :] * torch.cos(a)).sum(-1) / x.shape[-1], -(x[..., None, :] * torch.sin(a)).sum(-1)


def by_einsum(x: Any) -> Any:
    a = _angles(x.shape[-1])
    return torch.einsum("bk,jkc->bjc", x, torch.stack([torch.cos(a), -torch.sin(a)], -1))


def by_complex(x: Any) -> Any:
    a = _angles(x.shape[-1])
    return torch.view_as_real(x.to(torch.complex64) @ torch.polar(torch.ones_like(a), -a))


def scaled(x: Any) -> Any:
    n = x.shape[-1]
    return x @ (torch.cos(_angles(n)) / n**0.5), x @ (torch.cos(_angles(n)) / n)


def by_cosines(x: Any) -> Any:
    k = torch.arange(x.shape[-1], dtype=torch.float32)
    return x @ torch.cos((torch.pi / x.shape[-1]) * (k[:, None] + 0.5) * k)


def of_pairs(real: Any, im: Any) -> Any:
    a = _angles(real.shape[-1])
    both = real[..., None, :] * torch.cos(a) - im[..., None, :] * torch.sin(a)
    return both.sum(-1)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("reference", "shapes", "count"),
    [
        (by_tables, "x=b n", 2), (by_sums, "x=b n", 2), (by_einsum, "x=b n", 1), (by_complex, "x=b n", 2),
        (by_cosines, "x=... n", 1), (scaled, "x=b n", 2), (of_pairs, "real=b n, im=b n", 1),
    ],
)  # fmt: skip
def test_a_transform_that_is_written_out_has_room_for_its_row(
    reference: Callable[..., Any], shapes: str, count: int
) -> None:
    found = derive(reference, shapes)  # holds the formula against the reference at three sets of extents
    assert len(re.findall(r"\+ (size\d*) - \1", found.formula.text)) == count
    assert "held to magnitudes of whole rows" in found.said


def weighted(x: Any, w: Any) -> Any:
    return x @ w


def picked(x: Any) -> Any:
    return x @ torch.eye(x.shape[-1]).flip(0)


def summed(x: Any) -> Any:
    k = torch.arange(x.shape[-1])
    return x @ (k[:, None] <= k).float()


def at_one_frequency(x: Any) -> Any:
    return (x * torch.cos(torch.arange(x.shape[-1]) * 0.5)).sum(-1)


def trapezoids(x: Any) -> Any:
    return (0.5 * (x[:, 1:] + x[:, :-1])).sum(-1)


def of_positions(x: Any) -> Any:
    k = torch.arange(x.shape[-1], dtype=torch.float32)
    return x @ torch.cos(k[:, None] / 10000.0 ** (k / x.shape[-1]))


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("reference", "shapes"),
    [
        (weighted, "x=b n, w=n m"), (picked, "x=b n"), (summed, "x=b n"), (at_one_frequency, "x=b n"),
        (of_positions, "x=b n"), (trapezoids, "x=b n+1"),
    ],
)  # fmt: skip
def test_other_products_are_held_to_the_terms_of_each_element(reference: Callable[..., Any], shapes: str) -> None:
    assert " - size" not in derive(reference, shapes).formula.text


def test_with_any_values_a_product_keeps_its_infinities() -> None:
    assert " - size" not in derive(by_tables, "x=b n", values="any").formula.text


def _dft(n: int, bins: int | None = None) -> NDArray[Any]:
    return np.asarray(np.exp(-2j * np.pi * (np.outer(np.arange(bins or n), np.arange(n)) % n) / n))


def _irfft(n: int) -> NDArray[Any]:
    bins = np.arange(n // 2 + 1)
    twice = np.where((bins == 0) | (2 * bins == n), 1.0, 2.0)
    return np.asarray(twice * np.cos(2 * np.pi * np.outer(np.arange(n), bins) / n) / n)


SIZES = (6, 7, 8, 13, 64, 89, 100, 200)


@pytest.mark.parametrize("n", SIZES)
def test_matrices_of_transforms_are_recognised(n: int) -> None:
    place, dft = np.arange(n), _dft(n)
    cosines = np.cos(np.pi / n * np.outer(place, place + 0.5))
    made = [dft, dft.real, dft.imag, 3.0 * dft, _dft(n, n // 2 + 1).real, _dft(n, n // 2 + 1).imag[1:], cosines,
            cosines.T, _irfft(n), np.concatenate([dft.real, dft.imag]), np.kron(dft, _dft(3)).real,
            np.block([[dft.real, dft.imag], [-dft.imag, dft.real]])]  # fmt: skip
    made += [each.astype(np.complex64 if np.iscomplexobj(each) else np.float32) for each in made]
    assert [at for at, each in enumerate(made) if not is_transform(each)] == []


@pytest.mark.parametrize("n", SIZES)
def test_matrices_with_other_errors_are_not(n: int) -> None:
    random, place, wrong = np.random.default_rng(n), np.arange(n), _dft(n).real.copy()
    wrong[1, 2] += 0.1
    made = [np.eye(n), np.eye(n)[:, ::-1], np.eye(n)[:3], np.tril(np.ones((n, n))), random.normal(size=(n, n)), wrong,
            np.zeros((n, n)),
            np.linalg.qr(random.normal(size=(n, n)))[0] * (place < 2), np.full((n, n), np.nan),
            np.outer(np.cos(place), np.sin(1 + place)), _dft(n).real * np.hanning(n)]  # fmt: skip
    assert [at for at, each in enumerate(made) if is_transform(each)] == []


def _fast(x: F32, factor: type[np.floating[Any]] = np.float32, lost: int = 0) -> F32:
    """Return real and imaginary parts by halves down to odd lengths."""
    n = x.shape[-1]

    def rounded(waves: NDArray[Any]) -> NDArray[Any]:
        return waves.real.astype(factor).astype(np.float32) + 1j * waves.imag.astype(factor).astype(np.float32)

    def by_halves(z: NDArray[Any]) -> NDArray[Any]:
        m = z.shape[-1]
        if m % 2:
            return np.asarray(z @ rounded(_dft(m)).astype(np.complex64))
        even, odd = by_halves(z[:, ::2]), by_halves(z[:, 1::2])
        odd = odd * rounded(np.exp(-2j * np.pi * np.arange(m // 2) / m)).astype(np.complex64)
        return np.concatenate([even + odd, even - odd], -1)

    y = by_halves(x.astype(np.complex64))
    y[:, n - lost :] = 0
    return np.stack([y.real, y.imag], -1).astype(np.float32)


def _kernels(n: int) -> dict[str, tuple[Callable[[F32], F32], bool]]:
    direct = _dft(n).astype(np.complex64)
    return {
        "by halves": (_fast, True),
        "as written": (lambda x: np.stack([x @ direct.real, x @ direct.imag], -1), True),
        "coarse factors": (lambda x: _fast(x, np.float16), False),
        "last bin lost": (lambda x: _fast(x, lost=1), False),
        "other sign": (lambda x: _fast(x) * np.array([1, -1], np.float32), False),
        "no imaginary part": (lambda x: _fast(x) * np.array([1, 0], np.float32), False),
        "scaled": (lambda x: _fast(x) / np.float32(n), False),
        "shifted bins": (lambda x: np.roll(_fast(x), 1, 1), False),
    }


@pytest.mark.some(4)
@pytest.mark.parametrize("n", [8, 12, 31])
@pytest.mark.parametrize("name", _kernels(3))
def test_right_and_wrong_transforms(name: str, n: int) -> None:
    kernel, is_right = _kernels(n)[name]
    op, place = derive(by_einsum, "x=b n").op, np.arange(n)
    rows = [np.cos(place * 2.0), place == n // 3, np.ones(n), (-1.0) ** place, 1e6 * (place == n // 2) + place]
    x = np.stack(rows).astype(np.float32)
    with known(op):
        found = results(Problem(op.name, {}, {"x": x}, {"y": "f32"}), UNDECLARED, {"y": kernel(x)})
    assert found == ["pass" if is_right else "numeric"]


def test_a_replay_holds_a_product_with_a_table_to_the_row() -> None:
    cosines = torch.from_numpy(_dft(32).real.copy())
    x = (np.arange(32) == 5).astype(np.float64)[None]
    found = [replayed(ways_of(made), {"x": x})[0].allowed for made in (
        lambda x: x @ cosines.to(x.dtype), lambda x: (x[:, None] * cosines.to(x.dtype)).sum(-1))]  # fmt: skip
    zeros = np.abs(cosines.numpy()[5]) < 1e-9
    assert zeros.any()
    assert (found[0][0, zeros] > 1e-8).all()
    assert (found[1][0, zeros] < 1e-8).all()
