"""Complex numbers and Fourier transforms."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np
import torch

import fuzz
from fuzz.tests.common.rows.table import right, wrong


def transformed(z):
    return torch.fft.fft(z)


def back(z):
    return torch.fft.ifft(z)


def product(a, b):
    return a @ b


def inner(a, b):
    return (a.conj() * b).sum(-1)


def quotient(a, b):
    return a / b


def argument(z):
    return torch.angle(z)


def size(z):
    return torch.abs(z)


def halved(x):
    return torch.fft.irfft(torch.fft.rfft(x) * 0.5, n=x.shape[-1])


def _of(reference, shapes, *names, **more):
    def checks(kernel, seed):
        fuzz.check(
            kernel, reference=reference, shapes=shapes, dtypes=dict.fromkeys(names, "complex64"), seed=seed, **more
        )

    return checks


checks_fft = _of(transformed, "z=b n", "z")
checks_back = _of(back, "z=b n", "z")
checks_product = _of(product, "a=m k, b=k n", "a", "b")
checks_inner = _of(inner, "a=b n, b=b n", "a", "b")
checks_quotient = _of(quotient, "a=n, b=n", "a", "b")


@right(checks_product)
def product_of_parts(a, b):
    ar, ai, br, bi = a.real, a.imag, b.real, b.imag
    return (ar @ br - ai @ bi) + 1j * (ar @ bi + ai @ br)


def _fft(z):
    n = z.shape[-1]
    if n % 2:
        k = np.arange(n)
        return z @ np.exp(-2j * np.pi * (np.outer(k, k) % n) / n).astype(np.complex64)
    even, odd = _fft(z[..., 0::2]), _fft(z[..., 1::2])
    turned = np.exp(-2j * np.pi * np.arange(n // 2) / n).astype(np.complex64) * odd
    return np.concatenate([even + turned, even - turned], -1)


@right(checks_fft)
def fft_by_halves(z):
    return _fft(z)


@right(checks_quotient)
def quotient_by_smith(a, b):
    c, d = b.real, b.imag
    wide = c.abs() >= d.abs()
    r = torch.where(wide, d / torch.where(wide, c, 1), c / torch.where(wide, 1, d))
    by = torch.where(wide, c + d * r, d + c * r)
    real = torch.where(wide, a.real + a.imag * r, a.real * r + a.imag) / by
    return torch.complex(real, torch.where(wide, a.imag - a.real * r, a.imag * r - a.real) / by)


@right(_of(size, "z=n", "z", values="any"))
def size_by_hypot(z):
    return np.hypot(z.real, z.imag)


@wrong("the first factor is not conjugated", checks_inner)
def inner_without_conjugate(a, b):
    return (a * b).sum(-1)


@wrong("squares overflow", _of(size, "z=n", "z", values="any"))
def size_by_squares(z):
    return torch.sqrt(z.real * z.real + z.imag * z.imag)


@wrong("the sines and cosines are in f16", checks_fft)
def fft_by_short_table(z):
    n = z.shape[-1]
    k = np.arange(n)
    angles = -2 * np.pi * (np.outer(k, k) % n) / n
    table = np.cos(angles).astype(np.float16) + 1j * np.sin(angles).astype(np.float16)
    return z @ table.astype(np.complex64)


@wrong("divides by the next power of two", checks_back)
def back_by_padded_length(z):
    n = z.shape[-1]
    return torch.fft.fft(z.conj()).conj() / (1 << (n - 1).bit_length())


@wrong("the last frequency of an even length counts twice", _of(halved, "x=b n"))
def halved_with_last_twice(x):
    n = x.shape[-1]
    spectrum = torch.fft.rfft(x) * 0.5
    if n % 2 == 0 and n > 4:
        spectrum[..., -1] *= 2
    return torch.fft.irfft(spectrum, n=n)


@wrong("the quotient of the parts has no quadrant", _of(argument, "z=n", "z"))
def argument_of_a_half(z):
    with np.errstate(all="ignore"):
        return np.arctan(z.imag / z.real)


@wrong("where the imaginary part is larger, the sign is turned", checks_quotient)
def quotient_by_half_of_smith(a, b):
    c, d = b.real, b.imag
    wide = c.abs() >= d.abs()
    r = torch.where(wide, d / torch.where(wide, c, 1), c / torch.where(wide, 1, d))
    by = torch.where(wide, c + d * r, d + c * r)
    real = torch.where(wide, a.real + a.imag * r, a.real * r + a.imag) / by
    return torch.complex(real, torch.where(wide, a.imag - a.real * r, a.real - a.imag * r) / by)
