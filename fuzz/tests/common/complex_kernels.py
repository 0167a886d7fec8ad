"""Kernels of complex numbers, right ones of several libraries and by hand, and wrong ones by somebody who knows only
what each op is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

Kernel = Callable[..., Any]


class Row(NamedTuple):
    """A reference, its shapes, and kernels of it; tensors called z and w are of complex numbers."""

    reference: Kernel
    shapes: str
    right: Sequence[Kernel]
    wrong: Sequence[Kernel]
    given: Mapping[str, Any] = {}


def made(real: Any, imag: Any) -> Any:
    """Return complex numbers in NumPy, without a product by i, which makes NaN of infinities."""
    found = np.empty(np.shape(real), np.result_type(real, np.complex64))
    found.real, found.imag = real, imag
    return found


def fused(z: Any, w: Any) -> Any:
    a, b, c, d = (np.asarray(each, np.float64) for each in (z.real, z.imag, w.real, w.imag))
    rounded = [np.float32(b * d).astype(np.float64), np.float32(b * c).astype(np.float64)]
    return made(np.float32(a * c - rounded[0]), np.float32(a * d + rounded[1]))


def one_by_one(z: Any, w: Any) -> Any:
    y = np.zeros(z.shape, z.dtype)
    for at in np.ndindex(*z.shape):
        y[at] = z[at] * w[at]
    return y


def reads_what_it_wrote(z: Any, w: Any) -> Any:
    y = np.empty_like(z)
    y.real = z.real * w.real - z.imag * w.imag
    y.imag = y.real * w.imag + z.imag * w.real
    return y


def real_tail(z: Any, w: Any) -> Any:
    y = z * w
    y.imag[..., z.shape[-1] // 4 * 4 :] = 0.0
    return y


def gauss(z: Any, w: Any) -> Any:
    a, b, c, d = z.real, z.imag, w.real, w.imag
    first, second, third = c * (a + b), a * (d - c), b * (c + d)
    return torch.complex(first - third, first + second)


def by_three(z: Any, w: Any, times: Kernel = np.multiply) -> Any:
    """The product of two numbers, or of matrices, by three products of real ones."""
    a, b, c, d = z.real, z.imag, w.real, w.imag
    first, second = times(a, c), times(b, d)
    return made(first - second, times(a + b, c + d) - first - second)


def by_angle(z: Any, power: float) -> Any:
    size, angle = np.abs(z) ** np.float32(power), np.angle(z) * np.float32(power)
    return made(size * np.cos(angle), size * np.sin(angle))


def _with_short_third(z: Any, w: Any, lost: Kernel) -> Any:
    """Three products of matrices, of which the third is short."""
    a, b, c, d = z.real, z.imag, w.real, w.imag
    first, second = a @ c, b @ d
    return torch.complex(first - second, lost(a + b) @ lost(c + d) - first - second)


def _gauss_with(z: Any, w: Any, real: Kernel, imag: Kernel) -> Any:
    a, b, c, d = z.real, z.imag, w.real, w.imag
    first, second, third = c * (a + b), a * (d - c), b * (c + d)
    return torch.complex(real(first, second, third), imag(first, second, third))


def by_conjugate(z: Any, w: Any) -> Any:
    size = w.real * w.real + w.imag * w.imag
    return torch.complex(
        (z.real * w.real + z.imag * w.imag) / size, (z.imag * w.real - z.real * w.imag) / size
    )  # fmt: skip


def smith(z: Any, w: Any) -> Any:
    a, b, c, d = z.real, z.imag, w.real, w.imag
    big = np.abs(c) >= np.abs(d)
    with np.errstate(all="ignore"):
        r = np.where(big, d / c, c / d)
        below = np.where(big, c + d * r, c * r + d)
        return made(np.where(big, a + b * r, a * r + b) / below, np.where(big, b - a * r, b * r - a) / below)


def smith_that_never_swaps(z: Any, w: Any) -> Any:
    with np.errstate(all="ignore"):
        r = np.where(w.real != 0, w.imag / w.real, 0)
        below = w.real + w.imag * r
        return made((z.real + z.imag * r) / below, (z.imag - z.real * r) / below)


def scaled_size(z: Any) -> Any:
    most, least = torch.maximum(z.real.abs(), z.imag.abs()), torch.minimum(z.real.abs(), z.imag.abs())
    share = torch.where(most == 0, most, least / most)
    return most * torch.sqrt(1 + share * share)


def alpha_max(z: Any) -> Any:
    a, b = z.real.abs(), z.imag.abs()
    return 0.96043387 * torch.maximum(a, b) + 0.39782473 * torch.minimum(a, b)


def in_a_loop(z: Any) -> Any:
    y = np.zeros(z.shape[:-1], z.dtype)
    for at in range(z.shape[-1]):
        y = y + z[..., at]
    return y


def in_blocks(z: Any, w: Any) -> Any:
    wide = torch.cat([torch.cat([w.real, w.imag], 1), torch.cat([-w.imag, w.real], 1)], 0)
    y, n = torch.cat([z.real, z.imag], 1) @ wide, w.shape[1]
    return torch.complex(y[:, :n].contiguous(), y[:, n:].contiguous())


def in_bf16(z: Any, w: Any) -> Any:
    a, b, c, d = (each.bfloat16().float() for each in (z.real, z.imag, w.real, w.imag))
    return torch.complex(a @ c - b @ d, a @ d + b @ c)


def short_of_a_tail(z: Any, w: Any) -> Any:
    k = z.shape[1] // 8 * 8 or z.shape[1]
    return torch.complex(z.real @ w.real - z.imag[:, :k] @ w.imag[:k], z.real @ w.imag + z.imag @ w.real)


def by_kahan(z: Any) -> Any:
    size = np.sqrt((np.abs(z.real) + np.hypot(z.real, z.imag)) / 2)
    with np.errstate(all="ignore"):
        other = np.where(size == 0, size, np.abs(z.imag) / (2 * size))
    sign = np.copysign(np.ones_like(size), z.imag)
    return made(np.where(z.real >= 0, size, other), sign * np.where(z.real >= 0, other, size))


def with_cancellation(z: Any) -> Any:
    size, sign = torch.hypot(z.real, z.imag), torch.where(z.imag < 0, -1.0, 1.0)
    halves = [((size + each) / 2).clamp(min=0).sqrt() for each in (z.real, -z.real)]
    return torch.complex(halves[0], sign * halves[1])


def by_sum(x: Any) -> Any:
    n = x.shape[-1]
    turns = np.outer(np.arange(n), np.arange(n // 2 + 1)) % n
    return x @ np.exp(-2j * np.pi * turns / n).astype(np.complex64)


def last_is_real(x: Any) -> Any:
    y = np.fft.rfft(x)
    y[..., -1] = y[..., -1].real  # only for an even n
    return y


def half_of_the_first(x: Any) -> Any:
    y = np.fft.rfft(x)
    y[..., 0] /= 2
    return y


def _turned(z: Any, cos: Any, sin: Any) -> Any:
    return torch.complex(z.real * cos - z.imag * sin, z.real * sin + z.imag * cos)


def _coarse(z: Any) -> Any:
    n = z.shape[-1]
    turns = np.exp(2j * np.pi * (np.outer(np.arange(n), np.arange(n)) % n) / n)
    return z @ made(turns.real.astype(np.float16), turns.imag.astype(np.float16)).astype(np.complex64) / np.float32(n)


ROWS = {
    "product": Row(
        lambda z, w: z * w, "z=b n, w=b n",
        [lambda z, w: torch.mul(z, w), lambda z, w: np.multiply(z, w),
         lambda z, w: torch.complex(z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real),
         fused, one_by_one],
        [lambda z, w: z * w.conj(), reads_what_it_wrote, real_tail,
         lambda z, w: torch.complex(z.real * w.real + z.imag * w.imag, z.real * w.imag + z.imag * w.real),
         lambda z, w: torch.complex(z.real * w.real - z.imag * w.imag, z.real * w.imag),
         lambda z, w: torch.complex((z * w).real, (z * w).imag.bfloat16().float())],
    ),
    "quotient": Row(
        lambda z, w: z / w, "z=b n, w=b n",
        [lambda z, w: torch.div(z, w), lambda z, w: np.divide(z, w), by_conjugate, smith,
         lambda z, w: z * (w.conj() / (w.real**2 + w.imag**2))],
        [lambda z, w: by_conjugate(z, w.conj()), lambda z, w: by_conjugate(z, w) * w.abs(),
         lambda z, w: by_conjugate(z * (w.abs() > 0.01), w), smith_that_never_swaps,
         lambda z, w: torch.complex(z.real / w.real, z.imag / w.imag),
         lambda z, w: torch.complex((z / w).imag, (z / w).real)],
    ),
    "magnitude": Row(
        lambda z: z.abs(), "z=b n",
        [lambda z: torch.abs(z), lambda z: np.abs(z), lambda z: torch.sqrt(z.real**2 + z.imag**2),
         lambda z: np.hypot(z.real, z.imag), lambda z: np.sqrt((z * z.conj()).real), scaled_size],
        [lambda z: z.real**2 + z.imag**2, lambda z: z.real.abs(), lambda z: z.real.abs() + z.imag.abs(), alpha_max,
         lambda z: torch.sqrt((z.real**2 - z.imag**2).abs()), lambda z: torch.sqrt(z.real**2 + z.imag**2 + 1e-6)],
    ),
    "exponential": Row(
        lambda z: z.exp(), "z=b n",
        [lambda z: torch.exp(z), lambda z: np.exp(z), lambda z: torch.polar(torch.exp(z.real), z.imag),
         lambda z: made(np.exp(z.real) * np.cos(z.imag), np.exp(z.real) * np.sin(z.imag))],
        [lambda z: made(np.exp(z.real) * np.sin(z.imag), np.exp(z.real) * np.cos(z.imag)),
         lambda z: torch.polar(torch.ones_like(z.real), z.imag), lambda z: torch.exp(z).conj(),
         lambda z: 1 + z + z * z / 2 + z * z * z / 6, lambda z: torch.polar(torch.exp(z.real), z.imag.abs()),
         lambda z: torch.polar(torch.exp(z.real), torch.remainder(z.imag, 6.28))],
    ),
    "angle": Row(
        lambda z: z.angle(), "z=b n",
        [lambda z: torch.angle(z), lambda z: np.angle(z), lambda z: np.arctan2(z.imag, z.real)],
        [lambda z: torch.atan2(z.real, z.imag), lambda z: torch.atan(z.imag / z.real), lambda z: -torch.angle(z),
         lambda z: torch.remainder(torch.angle(z), 2 * torch.pi), lambda z: torch.rad2deg(torch.angle(z)),
         lambda z: torch.acos((z.real / z.abs()).clamp(-1, 1))],
    ),
    "sum": Row(
        lambda z: z.sum(-1), "z=b n",
        [lambda z: torch.sum(z, -1), lambda z: np.sum(z, -1), in_a_loop,
         lambda z: torch.complex(z.real.sum(-1), z.imag.flip(-1).cumsum(-1)[..., -1])],
        [lambda z: z.conj().sum(-1), lambda z: z[..., : max(z.shape[-1] - 1, 1)].sum(-1), lambda z: z.mean(-1),
         lambda z: torch.complex(z.real.sum(-1), z.imag[..., : z.shape[-1] // 4 * 4].sum(-1)),
         lambda z: torch.complex(z.real.half().sum(-1).float(), z.imag.sum(-1)),
         lambda z: torch.polar(z.abs().sum(-1), z.sum(-1).angle())],
    ),
    "matrices": Row(
        lambda z, w: z @ w, "z=m k, w=k n",
        [lambda z, w: torch.matmul(z, w), lambda z, w: np.matmul(z, w), lambda z, w: np.einsum("mk,kn->mn", z, w),
         lambda z, w: torch.complex(z.real @ w.real - z.imag @ w.imag, z.real @ w.imag + z.imag @ w.real), in_blocks],
        [lambda z, w: z.conj() @ w, lambda z, w: z @ w.conj(), in_bf16, short_of_a_tail,
         lambda z, w: torch.complex(z.real @ w.real + z.imag @ w.imag, z.real @ w.imag + z.imag @ w.real),
         lambda z, w: torch.complex(z.real @ w.real - z.imag @ w.imag, z.real @ w.imag)],
    ),
    "inner": Row(
        lambda z, w: (z.conj() * w).sum(-1), "z=b n, w=b n",
        [lambda z, w: torch.linalg.vecdot(z, w), lambda z, w: np.einsum("bn,bn->b", z.conj(), w),
         lambda z, w: np.array([np.vdot(a, b) for a, b in zip(z, w, strict=True)], z.dtype)],
        [lambda z, w: (z * w).sum(-1), lambda z, w: (z * w.conj()).sum(-1), lambda z, w: (z.conj() * w[:1]).sum(-1),
         lambda z, w: (z.conj() * w).sum(-1).real + 0j, lambda z, w: (z.conj() * w).sum(-1).abs() + 0j,
         lambda z, w: (z.conj() * w)[..., ::2].sum(-1) * 2],
    ),
    "root": Row(
        lambda z: z.sqrt(), "z=b n",
        [lambda z: torch.sqrt(z), lambda z: np.sqrt(z), by_kahan],
        [lambda z: -torch.sqrt(z), lambda z: torch.sqrt(z.conj()), with_cancellation,
         lambda z: torch.complex(torch.sqrt(z).real, torch.sqrt(z).imag.abs()),
         lambda z: torch.complex(z.real.abs().sqrt(), z.imag.abs().sqrt()),
         lambda z: torch.polar(z.abs().sqrt(), z.angle())],
    ),
    "logarithm": Row(
        lambda z: z.log(), "z=b n",
        [lambda z: torch.log(z), lambda z: np.log(z), lambda z: torch.complex(torch.log(z.abs()), z.angle()),
         lambda z: made(0.5 * np.log(z.real * z.real + z.imag * z.imag), np.arctan2(z.imag, z.real))],
        [lambda z: torch.complex(torch.log2(z.abs()), z.angle()), lambda z: torch.log(z).conj(),
         lambda z: torch.complex(torch.log(z.real**2 + z.imag**2), z.angle()), lambda z: torch.log(z + 1e-6),
         lambda z: torch.complex(torch.log(z.abs()), torch.atan(z.imag / z.real)),
         lambda z: torch.complex(torch.log(z.abs()), torch.remainder(z.angle(), 2 * torch.pi))],
    ),
    "half a transform": Row(
        lambda x: torch.fft.rfft(x), "x=b n",
        [lambda x: np.fft.rfft(x), lambda x: torch.fft.fft(x)[..., : x.shape[-1] // 2 + 1], by_sum],
        [lambda x: np.fft.rfft(x).conj(), lambda x: np.fft.rfft(x, norm="ortho"), last_is_real, half_of_the_first,
         lambda x: np.fft.rfft(np.roll(x, 1, -1)), lambda x: np.fft.rfft(x * np.hanning(x.shape[-1]))],
        {"fixed": {"n": 31}},
    ),
    "inverse transform": Row(
        lambda z: torch.fft.ifft(z), "z=b n",
        [lambda z: np.fft.ifft(z), lambda z: torch.fft.fft(z.conj()).conj() / z.shape[-1],
         lambda z: np.roll(np.fft.fft(z)[..., ::-1], 1, -1) / np.float32(z.shape[-1])],
        [lambda z: np.fft.fft(z), lambda z: np.fft.ifft(z) * z.shape[-1], lambda z: np.fft.fft(z) / z.shape[-1],
         lambda z: np.fft.ifft(z, n=1 << (z.shape[-1] - 1).bit_length())[..., : z.shape[-1]],
         lambda z: np.fft.ifft(z.real), _coarse],
        {"fixed": {"n": 30}},
    ),
    "rotation": Row(
        lambda z, a: z * torch.polar(torch.ones_like(a), a), "z=b n, a=n",
        [lambda z, a: z * torch.exp(1j * a), lambda z, a: z * np.exp(1j * a),
         lambda z, a: _turned(z, a.cos(), a.sin())],
        [lambda z, a: z * torch.exp(-1j * a), lambda z, a: _turned(z, a.sin(), a.cos()), lambda z, a: z * (1 + 1j * a),
         lambda z, a: torch.complex(_turned(z, a.cos(), a.sin()).real, z.imag * a.cos()),
         lambda z, a: z * torch.exp(1j * a.half().float()), lambda z, a: z * torch.exp(1j * a[:1])],
    ),
}  # fmt: skip

BY_NORM = {
    "product": Row(
        lambda z, w: z * w, "z=b n, w=b n",
        [gauss, by_three, lambda z, w: torch.polar(z.abs() * w.abs(), z.angle() + w.angle())],
        [lambda z, w: gauss(z, w.conj()), lambda z, w: _gauss_with(z, w, lambda p, q, r: p - r, lambda p, q, r: p - q),
         lambda z, w: _gauss_with(z, w, lambda p, q, r: p, lambda p, q, r: p + q),
         lambda z, w: _gauss_with(z, w, lambda p, q, r: p - r, lambda p, q, r: 0.0 * p),
         lambda z, w: _gauss_with(z, w, lambda p, q, r: p.half().float() - r, lambda p, q, r: p + q),
         lambda z, w: torch.polar(z.abs() * w.abs(), (z.angle() + w.angle()).half().float())],
    ),
    "matrices": Row(
        lambda z, w: z @ w, "z=m k, w=k n", [lambda z, w: by_three(z, w, np.matmul)],
        [lambda z, w: by_three(z, w.conj(), np.matmul),
         lambda z, w: _with_short_third(z, w, lambda x: x.half().float())],
    ),
    "inner": Row(
        lambda z, w: (z * w).sum(-1), "z=b n, w=b n", [lambda z, w: by_three(z, w).sum(-1)],
        [lambda z, w: by_three(z, w.conj()).sum(-1), lambda z, w: gauss(z, w)[..., ::2].sum(-1) * 2],
    ),
    "quotient": Row(
        lambda z, w: z / w, "z=b n, w=b n", [lambda z, w: torch.polar(z.abs() / w.abs(), z.angle() - w.angle())],
        [lambda z, w: torch.polar(z.abs() / w.abs(), z.angle() + w.angle())],
    ),
    "root": Row(
        lambda z: z.sqrt(), "z=b n",
        [lambda z: torch.polar(z.abs().sqrt(), z.angle() / 2), lambda z: by_angle(z, 0.5),
         lambda z: torch.exp(0.5 * torch.log(z))],
        [with_cancellation, lambda z: torch.polar(z.abs().sqrt(), torch.atan(z.imag / z.real) / 2),
         lambda z: torch.polar(z.abs().sqrt(), (z.angle() / 2).half().float())],
    ),
    "cube": Row(
        lambda z: z**3, "z=b n", [lambda z: by_angle(z, 3.0), lambda z: gauss(z, gauss(z, z))],
        [lambda z: by_angle(z, 2.0), lambda z: gauss(z, gauss(z, z.conj()))],
    ),
}  # fmt: skip
"""Kernels that are right by the norm of the whole number, but not in each part."""
