"""The matrix units of accelerators, bit by bit: how one instruction adds products to what there is.

Vendors document none of it. The rows are what others measured and published, and `python3 -m fuzz.quality matrix-units`
measures the unit of the machine at hand. All that is calculated here is exact in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import FORMATS, CutFormat, Format, point_form
from oracles.rounding import round_to
from oracles.summation import Blocks

_F32 = FORMATS["f32"]
_NOTHING = -(2**20)
"""An exponent below that of any number."""


@dataclass(frozen=True)
class MatrixUnit:
    """How the matrix unit of some accelerators adds products of some dtypes to an accumulator of f32."""

    accelerators: tuple[str, ...]
    dtypes: tuple[str, ...]
    """The dtypes of factors: formats, and "tf32" for f32 that is cut to it."""
    order: Blocks
    """The order of a sum in such a unit, as contracts declare it."""
    adds: Literal["cut", "pairs", "pairs, flushed", ""]
    """`cut`: all terms that an instruction adds are cut off at one bit, see `Blocks`; `pairs`: pairs of products are
    added, then pairs of these sums, and so on, each rounded to nearest; `flushed`: with subnormal numbers replaced by
    zero. An empty string: there is no model of its bits here, and `order` is wide enough."""
    source: str
    lowest: int = _NOTHING
    """Terms are aligned to this exponent, where all are smaller."""

    def added(self, a: F64, b: F64, start: F64, dtype: str) -> F64:
        """Return the results of instructions, shape `[...]`: `start` plus the products of at most `order.block` factors
        `a` and `b` of this dtype, shape `[..., k]`."""
        assert self.adds, "there is no model of this unit's bits"
        with np.errstate(all="ignore"):
            if self.adds != "cut":
                return _in_pairs(a * b, start, flushes=self.adds != "pairs")
            first, least = start[..., None], point_form(dtype).emin
            of_products = exponents(a, least) + exponents(b, least)
            of_terms = np.concatenate([of_products, exponents(first, _F32.emin)], axis=-1)
            return cut(np.concatenate([a * b, first], axis=-1), of_terms, self.order.extra, _F32, self.lowest)

    def product(self, a: F64, b: F64, dtype: str, start: F64 | float = 0.0) -> F64:
        """Return `start` plus the product of matrices, shape `[m, n]`, by instructions from the first k to the last."""
        found = np.broadcast_to(np.asarray(start, np.float64), (a.shape[0], b.shape[1]))
        for k in range(0, a.shape[1], self.order.block):
            places = slice(k, k + self.order.block)
            found = self.added(a[:, None, places], b.T[None, :, places], found, dtype)
        return found


_KHATTAK = "arXiv 2512.07004, Khattak and Mikaitis"
_XIE = "arXiv 2511.10909, Xie and others"
_BOTH = f"{_KHATTAK}; {_XIE}"
_VOLTA, _AMPERE, _ADA = ("V100",), ("A100", "A30", "A2"), ("L40S", "RTX 1000 Ada")
_HOPPER, _BLACKWELL = ("H100", "H200"), ("B200", "RTX PRO 6000")
_HALVES, _BYTES = ("f16", "bf16"), ("e4m3fn", "e5m2")


def _cutting(
    names: tuple[str, ...], dtypes: tuple[str, ...], block: int, extra: int, lowest: int = _NOTHING, source: str = _BOTH
) -> MatrixUnit:
    return MatrixUnit(names, dtypes, Blocks(block, truncates=True, extra=extra), "cut", source, lowest)


UNITS: tuple[MatrixUnit, ...] = (
    _cutting(_VOLTA, ("f16",), 4, 0),
    _cutting((*_AMPERE, *_ADA), _HALVES, 8, 1, -132),
    _cutting((*_AMPERE, *_ADA), ("tf32",), 4, 1, -132),
    _cutting(_ADA, _BYTES, 16, -10, -132),
    _cutting((*_HOPPER, *_BLACKWELL), _HALVES, 16, 2, -133),
    _cutting((*_HOPPER, *_BLACKWELL), ("tf32",), 8, 2, -133),
    _cutting(_HOPPER, _BYTES, 32, -10, -133),
    _cutting(_BLACKWELL, _BYTES, 32, 2, -133),
    MatrixUnit(
        ("MI100",), ("f16",), Blocks(4), "pairs",
        f"{_XIE}; in the models of {_KHATTAK} the exact sum is rounded once instead",
    ),
    MatrixUnit(("MI210", "MI250"), _HALVES, Blocks(4), "pairs, flushed", f"{_BOTH}; bf16 by instructions in _1k"),
    MatrixUnit(
        ("MI300A", "MI300X"), _HALVES, Blocks(8, truncates=True, extra=1), "",
        f"{_XIE}: products are cut off as on Ampere, added to what there is rounding down, then rounded to nearest",
    ),
    MatrixUnit(
        ("MI300A", "MI300X"), _BYTES, Blocks(16, truncates=True), "", f"{_XIE}: the same, of even and odd places apart"
    ),
)  # fmt: skip
"""All units that are known. Sums are of f32."""


def unit(accelerator: str, dtype: str) -> MatrixUnit:
    """Return the unit of an accelerator for factors of a dtype. Raises KeyError if none is known."""
    found = [each for each in UNITS if accelerator in each.accelerators and dtype in each.dtypes]
    if not found:
        raise KeyError(f"no matrix unit of {accelerator} for {dtype} is known")
    return found[0]


def exponents(values: F64, least: int = _NOTHING) -> F64:
    """Return the exponents of numbers, or `least` where they are smaller, as of subnormal numbers."""
    return np.asarray(np.maximum(np.frexp(values)[1] - 1, least))


def cut(terms: F64, of_terms: F64, extra: int, dtype: Format, lowest: int = _NOTHING) -> F64:
    """Return sums of terms along the last axis as `Blocks` that truncate have them, in a dtype that is narrower than
    f64. `of_terms` are the exponents of the terms, and `lowest` the smallest one that they are aligned to."""
    plain = terms.sum(axis=-1)  # the NaN or infinity of any order
    usual = np.asarray(np.isfinite(terms).all(axis=-1))
    terms = np.where(usual[..., None], terms, 0.0)
    top = np.maximum(np.max(of_terms, axis=-1, initial=_NOTHING, where=terms != 0), lowest)
    last = np.where(top == _NOTHING, 0, top - (dtype.precision - 1 + extra))
    # Terms are whole numbers of 2^last, and far fewer than 2^53 of them even when added.
    whole = np.trunc(np.ldexp(terms, -last[..., None])).sum(axis=-1)
    return np.where(usual, round_to(np.ldexp(whole, last), _short(dtype, extra)), plain)


@lru_cache
def _short(dtype: Format, extra: int) -> Format:
    """Return the format to which a sum is cut off: the dtype, with fewer bits if `extra` is negative."""
    bits = dtype.precision + min(extra, 0)
    most = math.ldexp(2 - 2.0 ** (1 - bits), dtype.emax)
    name = f"{dtype.name} of {bits} bits"
    return CutFormat(name, dtype.spelling, dtype.itemsize, bits, dtype.emin, most, ties="towards zero")


def _in_pairs(products: F64, start: F64, *, flushes: bool) -> F64:
    def kept(values: F64) -> F64:
        rounded = round_to(values, _F32)
        return np.where(np.abs(rounded) < _F32.tiny, 0.0, rounded) if flushes else rounded

    terms = kept(products)
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            terms = np.concatenate([terms, np.zeros_like(terms[..., :1])], axis=-1)
        terms = kept(terms[..., ::2] + terms[..., 1::2])
    return kept(kept(start) + terms[..., 0])
