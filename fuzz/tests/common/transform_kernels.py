"""Kernels of Fourier transforms: right ones of three libraries and by hand, and wrong ones, each with what must be said
of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
import torch

Kernel = Callable[..., Any]


class Bad(NamedTuple):
    """A wrong kernel, and the beginning of what is said of it; "" where nothing is named."""

    kernel: Kernel
    said: str = ""


class TransformRow(NamedTuple):
    """A reference, its shapes, and kernels of it; a tensor called z is of complex numbers."""

    reference: Kernel
    shapes: str
    right: Sequence[Kernel]
    wrong: Sequence[Bad]
    given: Mapping[str, Any] = {}


def waves(turns: Any, n: int, sign: int = -1) -> Any:
    """Return exp(sign 2 pi i turns / n), with angles and factors in f32."""
    angle = np.float32(2 * np.pi) * turns.astype(np.float32) / np.float32(n)
    return (np.cos(angle) + 1j * sign * np.sin(angle)).astype(np.complex64)


def by_halves(z: Any, sign: int = -1) -> Any:
    n = z.shape[-1]
    if n % 2:
        return z @ waves(np.outer(np.arange(n), np.arange(n)) % n, n, sign)
    even, odd = (by_halves(z[..., start::2], sign) for start in (0, 1))
    odd = odd * waves(np.arange(n // 2), n, sign)
    return np.concatenate([even + odd, even - odd], -1)


def by_chirps(z: Any) -> Any:
    """As a convolution, after Bluestein."""
    n = z.shape[-1]
    angle = np.float32(np.pi) * (np.arange(n) ** 2 % (2 * n)).astype(np.float32) / np.float32(n)
    chirps = (np.cos(angle) - 1j * np.sin(angle)).astype(np.complex64)
    m = 1 << (2 * n - 1).bit_length()
    whole, around = np.zeros((*z.shape[:-1], m), np.complex64), np.zeros(m, np.complex64)
    whole[..., :n], around[:n], around[m - n + 1 :] = z * chirps, chirps.conj(), chirps.conj()[:0:-1]
    return (by_halves(by_halves(whole) * by_halves(around), 1) / np.float32(m))[..., :n] * chirps


def by_products(x: Any) -> Any:
    n = x.shape[-1]
    return x @ waves(np.outer(np.arange(n), np.arange(n // 2 + 1)) % n, n)


def one_bin_turned(z: Any, by: float = 0.01, at: int = 2) -> Any:
    y = np.fft.fft(z)
    y[..., at % z.shape[-1]] *= np.exp(1j * np.float32(by))
    return y


def padded(z: Any) -> Any:
    n = z.shape[-1]
    return np.fft.fft(z, n=1 << (n - 1).bit_length())[..., :n]


def last_lost(z: Any) -> Any:
    y = np.fft.fft(z)
    y[..., -1] = 0
    return y


def in_bit_reversed_order(z: Any) -> Any:
    y, n = np.fft.fft(z), z.shape[-1]
    return y[..., np.argsort(np.arange(n) % 2, kind="stable")]


def of_coarse_factors(z: Any) -> Any:
    n = z.shape[-1]
    made = waves(np.outer(np.arange(n), np.arange(n)) % n, n)
    return z @ (made.real.astype(np.float16) + 1j * made.imag.astype(np.float16)).astype(np.complex64)


def of_turns_in_a_table(z: Any, bits: int = 17) -> Any:
    """With angles rounded to 2^-17 turns: of rows the norm allows that, of an impulse it is seen."""
    n = z.shape[-1]
    turns = np.round(np.outer(np.arange(n), np.arange(n)) % n / n * 2.0**bits) / 2.0**bits
    return z @ np.exp(-2j * np.pi * turns).astype(np.complex64)


def leaking(z: Any) -> Any:
    """With a bin that is off by 2e-5 of itself, in long rows."""
    return one_bin_turned(z, 2e-5, z.shape[-1] // 3) if z.shape[-1] > 200 else np.fft.fft(z)


def clipped(z: Any) -> Any:
    y = np.fft.fft(z)
    return np.where(np.abs(y) > 4, y * (4 / np.maximum(np.abs(y), 1)), y).astype(z.dtype)


def of_real_part(z: Any) -> Any:
    return np.fft.fft(z.real)


def real_tail_doubled(z: Any) -> Any:
    """As if every frequency but the first had a mirror image, also the middle one of an even length."""
    n = 2 * (z.shape[-1] - 1)
    twice = np.where(np.arange(z.shape[-1]) == 0, 1, 2).astype(np.float32)
    turns = np.outer(np.arange(n), np.arange(z.shape[-1])) % n
    return ((z * twice) @ waves(turns, n, 1).T).real / np.float32(n)


_OTHER, _MOVED = "is the transform with the other sign of the angle", "is the transform with its results "
ROWS = {
    "fft": TransformRow(
        lambda z: torch.fft.fft(z), "z=b n",
        [lambda z: torch.fft.fft(z), lambda z: np.fft.fft(z), lambda z: scipy.fft.fft(z), lambda z: by_halves(z),
         lambda z: by_chirps(z)],
        [Bad(lambda z: np.fft.ifft(z) * np.float32(z.shape[-1]), _OTHER),
         Bad(lambda z: np.fft.ifft(z), f"{_OTHER}, times 1/n"),
         Bad(lambda z: np.fft.fft(z).conj(), "is the conjugate of the transform"),
         Bad(lambda z: np.fft.fft(z, norm="ortho"), "is the transform, times 1/the root of n"),
         Bad(lambda z: np.roll(np.fft.fft(z), 1, -1), f"{_MOVED}moved by 1"),
         Bad(in_bit_reversed_order, f"{_MOVED}in another order"),
         Bad(lambda z: one_bin_turned(z), "wrong in 1 of"), Bad(last_lost, "wrong in 1 of"),
         Bad(lambda z: padded(z), "right only where n is a power of two"),
         Bad(of_coarse_factors, "has coarse factors"), Bad(clipped, "is not linear"),
         Bad(lambda z: of_real_part(z), "ignores z_imag")],
    ),
    "ifft": TransformRow(
        lambda z: torch.fft.ifft(z), "z=b n",
        [lambda z: torch.fft.ifft(z), lambda z: np.fft.ifft(z), lambda z: scipy.fft.ifft(z),
         lambda z: by_halves(z, 1) / np.float32(z.shape[-1])],
        [Bad(lambda z: np.fft.fft(z), f"{_OTHER}, times n"),
         Bad(lambda z: by_halves(z, 1), "is the transform, times n"),
         Bad(lambda z: np.fft.fft(z) / np.float32(z.shape[-1]), _OTHER),
         Bad(lambda z: np.fft.ifft(z.conj()), "is the transform of the conjugate"),
         Bad(lambda z: np.fft.ifft(z) * (1 + 1e-4), "is the transform, times 1"),
         Bad(lambda z: padded(z.conj()).conj() / np.float32(z.shape[-1]), "right only where n is a power of two")],
    ),
    "rfft": TransformRow(
        lambda x: torch.fft.rfft(x), "x=b n",
        [lambda x: torch.fft.rfft(x), lambda x: np.fft.rfft(x), lambda x: scipy.fft.rfft(x), by_products],
        [Bad(lambda x: np.fft.rfft(x).conj(), _OTHER),
         Bad(lambda x: 2 * np.fft.rfft(x), "is the transform, times 2"),
         Bad(lambda x: np.fft.rfft(x, norm="ortho"), "is the transform, times 1/the root of n"),
         Bad(lambda x: np.fft.rfft(x * (np.arange(x.shape[-1]) > 0)), "loses 1 of"),
         Bad(lambda x: np.fft.rfft(x * np.hamming(x.shape[-1]).astype(np.float32)), "wrong factors at"),
         Bad(lambda x: np.fft.rfft(x - x.mean(-1, keepdims=True)), "wrong in 1 of")],
    ),
    "irfft": TransformRow(
        lambda z: torch.fft.irfft(z, n=14), "z=b m",
        [lambda z: torch.fft.irfft(z, n=14), lambda z: np.fft.irfft(z, n=14), lambda z: scipy.fft.irfft(z, n=14)],
        [Bad(lambda z: np.fft.irfft(z, n=14) * np.float32(14), "is the transform, times n"),
         Bad(lambda z: np.fft.irfft(z.conj(), n=14), _OTHER), Bad(real_tail_doubled, "wrong factors at 1 of"),
         Bad(lambda z: np.roll(np.fft.irfft(z, n=14), 2, -1), f"{_MOVED}moved by 2"),
         Bad(lambda z: np.fft.ifft(z, n=14).real, "wrong factors at"),
         Bad(lambda z: np.fft.irfft(z.real + 0j, n=14), "ignores z_imag")],
        {"fixed": {"m": 8}},
    ),
    "fft2": TransformRow(
        lambda z: torch.fft.fft2(z), "z=b m n",
        [lambda z: torch.fft.fft2(z), lambda z: np.fft.fft2(z), lambda z: scipy.fft.fft2(z),
         lambda z: np.swapaxes(by_halves(np.swapaxes(by_halves(z), 1, 2)), 1, 2)],
        [Bad(lambda z: np.fft.fft(z)), Bad(lambda z: np.fft.ifft2(z), f"{_OTHER}, times"),
         Bad(lambda z: np.fft.fft2(z).conj(), "is the conjugate of the transform"),
         Bad(lambda z: np.fft.fftshift(np.fft.fft2(z), axes=(1, 2)), _MOVED),
         Bad(lambda z: padded(z) if z.shape[1] == 1 else np.fft.fft(padded(z), axis=1)),
         Bad(lambda z: np.fft.fft(np.fft.ifft(z, axis=1)))],
    ),
}  # fmt: skip
"""Transforms of each kind. What holds for a length alone is not said of fft2, whose rows are planes."""
HIDDEN = (of_turns_in_a_table, leaking)
"""Kernels of fft whose errors no row shows beyond its norm, an impulse does."""
