"""`fmod` of libraries, whose exact value is always a number of the format: any other value is an error."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.progress import track

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.core.base.errors import InternalError, UsageError
from fuzz.quality.libraries import FORMATS, LIBRARIES, OF_TWO, Call, Floats, NumberFormat, found
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record

_DRAWN = 1 << 18
_CONFIRMED = 256
"""The pairs of each draw whose value of the C library is confirmed by fractions."""
_FAR = 64
"""The largest difference of exponents in a third of the pairs, and the bits of the quotient in another. Chosen."""


@dataclass(frozen=True)
class RemaindersOptions:
    """The options of `python3 -m fuzz.quality remainders`."""

    library: Annotated[str, typer.Option("--library", help=f"Only these (a glob): {', '.join(LIBRARIES)}.")] = "*"
    count: Annotated[int, typer.Option("--count", min=1, help="The pairs of each format, in multiples of 262,144.")] = 4
    markdown: options.Markdown = False
    json: options.Json = None


@dataclass(frozen=True)
class RemainderErrors:
    """The pairs at which a library's `fmod` has another value than the exact one."""

    library: str
    dtype: str
    tried: int = 0
    wrong: int = 0
    flushed: int = 0
    """Those explained by zero in place of a subnormal argument or result, which are not wrong."""
    example: tuple[float, float, float, float] | None = None
    """A pair whose quotient is small, its value, and the right one."""


def remainders(options: RemaindersOptions) -> Exit:
    """Count the pairs at which `fmod` of libraries has another value than the exact one, which is always a number."""
    libraries = [each for each in LIBRARIES if fnmatchcase(each, options.library)]
    if not libraries:
        raise UsageError(f"--library {options.library}: there is no such library")
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            (name, form, own) for form in FORMATS.values() for name in libraries
            if (own := found(name, OF_TWO[0], Path(folder), form))
        ]  # fmt: skip
        errors = [
            _errors(name, own, form, options.count, Path(folder))
            for name, form, own in track(rows, "Trying", console=console.progress(), transient=True)
        ]
    print_table(PlainTable(_COLUMNS, [_row(each) for each in errors]), markdown=options.markdown)
    write_record(options.json, {"remainders": [asdict(each) for each in errors]})
    return Exit.OK


_COLUMNS = ("library", "format", "pairs", "wrong", "such as", "value", "right", "flushed")


def _row(each: RemainderErrors) -> Sequence[str]:
    x, y, got, right = (f"{one:.9g}" if each.dtype == "f32" else f"{one:.17g}" for one in each.example or (0.0,) * 4)
    said = (f"fmod({x}, {y})", got, right) if each.example else ("", "", "")
    return each.library, each.dtype, f"{each.tried:,}", f"{each.wrong:,}", *said, f"{each.flushed:,}"


def _errors(name: str, own: Call, form: NumberFormat, count: int, folder: Path) -> RemainderErrors:
    tried, wrong, flushed, example, least = 0, 0, 0, None, np.inf
    own_of_c = _of_c(form, folder)
    for seed in range(count):
        pairs = drawn(form, seed)
        got, right = own(pairs), exact(pairs, form, folder)
        off = ~_same(got, right)
        small = off & _same(got, _flat(own_of_c(_flat(pairs, form)), form))
        tried, flushed, off = tried + len(pairs), flushed + int(small.sum()), off & ~small
        wrong += int(off.sum())
        with np.errstate(all="ignore"):
            quotient = np.where(off, np.abs(pairs[:, 0].astype(form.wide) / pairs[:, 1]), np.inf)
        if quotient.min() < least:
            least, at = quotient.min(), int(quotient.argmin())
            example = float(pairs[at, 0]), float(pairs[at, 1]), float(got[at]), float(right[at])
    return RemainderErrors(name, form.name, tried, wrong, flushed, example)


def _same(one: Floats, other: Floats) -> NDArray[np.bool_]:
    return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)))


def _flat(values: Floats, form: NumberFormat) -> Floats:
    """Return numbers with zeros in place of subnormal ones."""
    return np.asarray(np.where(np.abs(values) < np.finfo(form.dtype).tiny, form.dtype(0), values))


def _of_c(form: NumberFormat, folder: Path) -> Call:
    own = found("C", OF_TWO[0], folder, form)
    if own is None:
        raise InternalError("the C library has no fmod")
    return own


def drawn(form: NumberFormat, seed: int) -> Floats:
    """Return pairs of finite numbers, the second not 0: a third of any bits, a third with exponents that are not far
    apart, and a third next to multiples of the second number."""
    draw = np.random.default_rng(seed)
    whole = np.dtype(form.dtype).itemsize * 8
    unsigned = np.dtype(f"u{whole // 8}")
    pairs = draw.integers(0, 1 << whole, (_DRAWN, 2), np.uint64 if whole == 64 else np.uint32).astype(unsigned)
    found: Floats = pairs.view(form.dtype)
    each = np.arange(_DRAWN) % 3
    with np.errstate(all="ignore"):
        near = np.ldexp(draw.uniform(1, 2, (_DRAWN, 2)), draw.integers(0, _FAR, (_DRAWN, 2)) - _FAR // 2)
        found[each == 1] = near[each == 1].astype(form.dtype)
        of_many = np.rint(np.exp2(draw.uniform(0, _FAR, _DRAWN))).astype(form.dtype) * near[:, 1].astype(form.dtype)
        found[each == 2, 1] = near[each == 2, 1].astype(form.dtype)
        found[each == 2, 0] = np.nextafter(of_many, draw.choice([-np.inf, 0, np.inf], _DRAWN).astype(form.dtype))[
            each == 2
        ]
    kept: Floats = found[np.isfinite(found).all(-1) & (found[:, 1] != 0)]
    return kept


def exact(pairs: Floats, form: NumberFormat, folder: Path) -> Floats:
    """Return the exact remainders: those of the C library, of which some are confirmed by fractions."""
    right = _of_c(form, folder)(pairs)
    step = max(len(pairs) // _CONFIRMED, 1)
    if list(map(float, right[::step])) != [*_by_fractions(pairs[::step])]:
        raise InternalError("the C library's fmod is not exact")
    return right


def _by_fractions(pairs: Floats) -> Iterator[float]:
    for x, y in pairs.tolist():
        left, by = Fraction(abs(x)), Fraction(abs(y))
        yield float(np.copysign(float(left - by * (left // by)), x))
