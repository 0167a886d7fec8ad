"""Complex numbers are read as their parts: rotations of pairs as models write them, and products by i."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def by_numpy(q: Any) -> Any:
    return np.fft.irfft(np.fft.rfft(q) * 2.0, n=q.shape[-1])


def of_planes(q: Any) -> Any:
    return torch.fft.ifft2(q).imag, torch.fft.rfft2(q).real


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("reference", "shapes", "words"),
    [
        (transformed, "q=b n", "wave + size - size, -wave2 + size - size)"),
        (inverse, "re=b n, im=b n", "+ size - size) / f.sqrt(f.extent("),
        (half, "q=b n", "twice"),
        (by_numpy, "q=b n", "+ size - size"),
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


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (lambda q: ((q * 1j) ** 1j).imag, "takes a power of complex numbers that is no real number"),
        (lambda q: torch.tanh(q * 1j).imag, r"aten.tanh \(.* line \d+\) of complex numbers has no formula"),
        (lambda q: q.conj().imag, "where complex numbers are meant, say so: dtypes="),
    ],
)
def test_other_complex_numbers_are_refused(reference: Callable[..., Any], words: str) -> None:
    with pytest.raises(UnreadableError, match=words):
        derive(reference, {"q": "b n"})


PLAIN: Mapping[str, tuple[Callable[..., Any], str]] = {
    "conjugates": (lambda z: z.conj(), "z=b n"),
    "means": (lambda z, w: (z * w).mean(-1), "z=b n, w=b n"),
    "chosen": (lambda z, x: torch.where(x > 0, z, -z), "z=b n, x=b n"),
    "joined": (lambda z, w, x: torch.cat([z, w, x.to(z.dtype)], -1), "z=b n, w=b k, x=b n"),
    "stacked": (lambda z, w: torch.stack([z, w.conj()], -1), "z=b n, w=b n"),
    "padded": (lambda z: torch.nn.functional.pad(z, (1, 2)), "z=b n"),
    "gathered": (lambda z, i: z[i], "z=b n, i=m"),
    "split": (lambda z: z.unflatten(-1, (2, -1)).unbind(1)[1], "z=b 2n"),
    "sums so far": (lambda z: z.cumsum(-1), "z=b n"),
    "equal": (lambda z, w: z == w, "z=b n, w=b n"),
    "multiples": (lambda z, w: torch.sub(z, w, alpha=2) + (1 - z), "z=b n, w=b n"),
    "added products": (lambda z, w, x: torch.addcmul(z, w, w) * x[:, None], "z=b n, w=b n, x=b"),
    "signs": (lambda z: torch.sgn(z), "z=b n"),
    "lengths": (lambda z: torch.linalg.vector_norm(z, dim=-1), "z=b n"),
    "layers": (lambda z, w, x: torch.nn.functional.linear(z, w, x.to(z.dtype)), "z=b n, w=m n, x=m"),
    "vectors": (lambda z, w: torch.vdot(z, w), "z=n, w=n"),
    "rows": (lambda z, w: z.mH @ w, "z=m k, w=m"),
    "cubes": (lambda z: z**3 + z**-1, "z=b n"),
    "sines": (lambda z: torch.sin(z) + torch.cosh(z), "z=b n"),
    "cosines": (lambda z: torch.cos(z) + torch.sinh(z), "z=b n"),
    "filtered": (lambda z, w: torch.fft.ifft(torch.fft.fft(z) * w), "z=b n, w=n"),
    "windows": (lambda z, w: torch.nn.functional.conv1d(z, w), "z=b c n, w=o c k, k=3"),
    "real": (lambda x: x.to(torch.complex64), "x=b n"),
    "in numpy": (lambda z, w: np.sum(np.conj(z) * w, axis=-1) * np.exp(1j * np.angle(w[:, 0])), "z=b n, w=b n"),
    "of torch itself": (torch.mul, "z=b n, w=b n"),
}


@pytest.mark.some(8)
@pytest.mark.parametrize("name", PLAIN)
def test_functions_of_complex_numbers_are_read(name: str) -> None:
    reference, shapes = PLAIN[name]
    found = derive(reference, shapes, dtypes={each: "complex64" for each in ("z", "w") if f"{each}=" in shapes})
    assert found.parted is not None


def test_results_are_named_by_their_parts() -> None:
    def polar(z: Any) -> Any:
        return {"size": z.abs(), "unit": z / z.abs()}

    op = derive(polar, "z=b n", dtypes={"z": "complex64"}).op
    assert [each.name for each in op.outputs] == ["size", "unit_real", "unit_imag"]
