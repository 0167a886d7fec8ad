"""Conversions between formats, which have one right result: all inputs of 8 and 16 bits, and of longer formats those
next to each number of the target and half-way between two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.dtypes import nans
from fuzz.core.base.text import counted
from fuzz.core.transport.python.arrays import NumpyArrays, TorchArrays
from fuzz.references.libraries import library_of
from fuzz.references.parameters import name_of
from fuzz.tasks.check.results import CheckError, CheckFailed, told
from oracles.doubledouble import F64
from oracles.dtypes import FORMATS, SPELLED, Format, Ties
from oracles.rounding import STORAGE, half_gap, round_to

__tracebackhide__ = told
Overflow = Literal["infinite", "saturate"]
Library = Literal["torch", "numpy"]
_TAILS = (1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33)
"""The lengths of further calls: kernels convert several elements at once, and the last ones otherwise."""
_MOST = 1 << 17
"""The most numbers of a longer target format of which the neighbours are tried."""


@dataclass(frozen=True)
class ConversionCheck:
    """What was tried of a conversion that passed."""

    source: str
    target: str
    tried: Mapping[str, int]
    """The number of inputs of each kind."""

    def __str__(self) -> str:
        every = "all " if FORMATS[self.source].itemsize <= 2 else ""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.tried.items() if count)
        return f"{self.source} to {self.target}: {every}{sum(self.tried.values()):,} inputs: {kinds}"


def check_conversion(
    kernel: Callable[..., Any], source: str, target: str, *, overflow: Overflow = "infinite", ties: Ties = "even",
    arrays: Library | None = None,
) -> ConversionCheck:  # fmt: skip
    """Check a kernel that converts a tensor of one format to another, and return what was tried. Formats are spelled as
    in torch and NumPy, or as in reports: "float8_e4m3fn" or "e4m3fn".

    A number that is too large becomes an infinity, or NaN in a format without infinities; with `overflow="saturate"` it
    becomes the largest number, and so does an infinity. NaN becomes any NaN, and zeros keep their signs. `ties` are
    "even", "away" or "towards zero", which cuts off. The kernel is given a tensor of torch, or an array if its code
    calls NumPy or `arrays` says so; it may return codes as unsigned integers. Raises CheckFailed for a wrong kernel."""
    one, other = (_format(each) for each in (source, target))
    given = _inputs(one, other)
    wide = _wide(given)
    right = _right(wide, replace(other, ties=ties), overflow).astype(STORAGE[other.name])
    call = _Call(kernel, one, other, arrays or ("numpy" if library_of(kernel) == "numpy" else "torch"))
    kinds = dict(_kinds(wide, right, other))
    if wrong := _wrong(call, given, right, kinds):
        raise CheckFailed(f"FAIL  {name_of(kernel)}  wrong values, {one.name} to {other.name}\n{wrong}")
    some = np.random.default_rng(0).permutation(len(given))
    for length in _TAILS:
        own = {name: mask[some[:length]] for name, mask in kinds.items()}
        if wrong := _wrong(call, given[some[:length]], right[some[:length]], own):
            words = f"wrong values, {one.name} to {other.name}, of {counted(length, 'element')} alone"
            raise CheckFailed(f"FAIL  {name_of(kernel)}  {words}\n{wrong}")
        some = some[length:]
    return ConversionCheck(one.name, other.name, {name: int(mask.sum()) for name, mask in kinds.items()})


def every(dtype: str, library: Library = "torch") -> Any:
    """Return a tensor, or array, of all values of a format of 8 or 16 bits, each once: NaNs and infinities too."""
    form = _format(dtype)
    if form.itemsize > 2:
        raise CheckError(f"{form.name} has too many values: every() is for formats of 8 and 16 bits")
    return _tensor(_all(form), form, library)


def _format(name: str) -> Format:
    found = FORMATS.get(name) or FORMATS.get(SPELLED[name].name if name in SPELLED else "")
    if found is None:
        raise CheckError(f"{name!r} is no format: known are {', '.join(FORMATS)}")
    return found


def _all(form: Format) -> NDArray[Any]:
    return np.arange(1 << 8 * form.itemsize, dtype=f"<u{form.itemsize}").view(STORAGE[form.name])


def _inputs(one: Format, other: Format) -> NDArray[Any]:
    """Return the inputs: all, or the numbers of the other format, those half-way, their neighbours, and any others."""
    if one.itemsize <= 2:
        return _all(one)
    random, kind = np.random.default_rng(0), STORAGE[one.name]
    some = _all(other) if other.itemsize <= 2 else _words(random, other)
    points = _wide(some)
    points = points[np.isfinite(points)]
    with np.errstate(over="ignore"):
        middle = points + half_gap(points, other, np.ones(points.shape, bool))
        ends = np.array(
            [other.max, other.max * (1.0 + other.u / 2), other.max * (1.0 + other.u), other.max * 2.0, np.inf]
        )
        near = np.concatenate([points, middle, ends, -ends]).astype(kind)
        both = [np.nextafter(near, kind.type(way)) for way in (-np.inf, np.inf)]
    quiet = nans(one.name, random.integers(0, 1 << 63, 256, dtype=np.uint64))
    return np.concatenate([near, *both, quiet.astype(kind, copy=False), _words(random, one)])


def _wide(values: NDArray[Any]) -> F64:
    """Return values as float64; NumPy warns of signalling NaNs."""
    with np.errstate(all="ignore"):
        found: F64 = values.astype(np.float64)
    return found


def _words(random: np.random.Generator, form: Format) -> NDArray[Any]:
    """Return numbers of any bits of a format."""
    return (
        random.integers(0, 1 << 8 * form.itemsize - 1, _MOST, dtype=np.uint64)
        .astype(f"<u{form.itemsize}")
        .view(STORAGE[form.name])
    )


def _right(wide: F64, other: Format, overflow: Overflow) -> F64:
    """Return the right results."""
    with np.errstate(all="ignore"):
        found = (
            round_to(wide, other) if other.ties == "even" else round_to(wide, replace(other, name=f"{other.name} cut"))
        )
    if overflow == "saturate":
        return np.where(np.isinf(found), np.copysign(other.max, wide), found)
    return found if other.infinities else np.where(np.isinf(found), np.nan, found)


def _kinds(wide: F64, right: NDArray[Any], other: Format) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the kinds of inputs, each with its mask; they do not overlap."""
    left, found = np.ones(wide.shape, bool), _wide(right)
    with np.errstate(all="ignore"):
        step = np.where(
            np.isfinite(found), 2.0 * half_gap(np.where(np.isfinite(found), found, 0.0), other, wide > found), 1.0
        )
        masks = {
            "NaN": np.isnan(wide), "infinities": np.isinf(wide), "zeros": wide == 0.0,
            "too large": np.abs(wide) > other.max, "exact": wide == found,
            "half-way": np.abs(wide - found) == step / 2.0, "that become subnormal or 0": np.abs(found) < other.tiny,
            "that are rounded": left,
        }  # fmt: skip
    for name, mask in masks.items():
        yield name, mask & left
        left = left & ~mask


@dataclass(frozen=True)
class _Call:
    kernel: Callable[..., Any]
    source: Format
    target: Format
    library: Library

    def __call__(self, given: NDArray[Any]) -> NDArray[Any]:
        """Return what the kernel makes of inputs. Raises CheckFailed if that has another dtype or length."""
        with np.errstate(all="ignore"):  # NumPy warns where a number becomes infinite, as it must
            found = self.kernel(_tensor(given, self.source, self.library))
        arrays = TorchArrays() if hasattr(found, "data_ptr") else NumpyArrays()
        found = found if arrays.owns(found) else np.asarray(found)
        dtype = next((name for name, own in arrays.dtypes.items() if own == found.dtype), str(found.dtype))
        codes = found.dtype.itemsize == self.target.itemsize and "uint" in str(found.dtype)
        if (dtype != self.target.name and not codes) or tuple(found.shape) != given.shape:
            shape = "x".join(map(str, found.shape))
            raise CheckFailed(f"{name_of(self.kernel)} returned {shape} {dtype}, not {len(given)} {self.target.name}")
        return np.frombuffer(arrays.bits(found), STORAGE[self.target.name])


def _tensor(given: NDArray[Any], form: Format, library: str) -> Any:
    if library == "numpy":
        return given.copy()
    import torch

    return torch.from_numpy(given.view(f"<i{form.itemsize}").copy()).view(getattr(torch, form.spelling))


def _wrong(call: _Call, given: NDArray[Any], right: NDArray[Any], kinds: Mapping[str, NDArray[np.bool_]]) -> str:
    """Return lines about wrong results by kind of input, with the first of each; '' if there are none."""
    got, size = call(given), call.target.itemsize
    both = np.isnan(_wide(got)) & np.isnan(_wide(right))
    wrong = (got.view(f"<u{size}") != right.view(f"<u{size}")) & ~both
    lines = list[str]()
    for name, mask in kinds.items():
        if count := int((wrong & mask).sum()):
            at = int(np.argmax(wrong & mask))
            values = f"{_shown(given[at])} became {_shown(got[at])}, must be {_shown(right[at])}"
            lines.append(f"  {name}: {count:,} of {int(mask.sum()):,} wrong, such as {values}")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return f"{float(value):.9g} ({int.from_bytes(value.tobytes(), 'little'):#0{2 + 2 * value.itemsize}x})"
