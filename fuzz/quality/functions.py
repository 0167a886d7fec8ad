"""The functions of libraries at all numbers of f32, or at many of f32 or f64: the largest error, and where. The C
library's function in the next wider type, which is good to a few of its own ulp, screens them; mpmath confirms the
largest errors. And `fmod`, whose exact value is always a number of the format: any other value is an error."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import mpmath
import numpy as np
import typer
from numpy.typing import NDArray
from rich.progress import track

from fuzz.campaign.parallel import spread
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.core.base.errors import InternalError, UsageError
from fuzz.quality.libraries import FORMATS, FUNCTIONS, LIBRARIES, OF_TWO, Call, Floats, NumberFormat, found, screened
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from oracles.elementary.functions import function

PATTERNS = 1 << 32
_BATCH = 1 << 22
_AT_ONCE = 1 << 17
"""The numbers that are compared at a time: arrays of more leave the cache, and 2^22 took four times as long."""
_CONFIRMED = 4
"""The number of arguments of a batch, those with the largest errors, that mpmath confirms."""
_DRAWN = 1 << 20
"""The numbers of f64 that a process draws at a time. Half of them are any bits, half are from 2^-30 to 2^10."""
_AROUND = 64
"""The arguments with the largest errors around which others are drawn, and how many around each."""
_STEPS = (40, 32, 24, 16, 8)
"""How far around them, as powers of two of places, from step to step. Chosen."""


@dataclass(frozen=True)
class FunctionsOptions:
    """The options of `python3 -m fuzz.quality functions`."""

    function: Annotated[str, typer.Option("--function", help="Only these functions (a glob).")] = "*"
    library: Annotated[
        str, typer.Option("--library", help=f"Only these libraries (a glob): {', '.join(LIBRARIES)}.")
    ] = "*"
    dtype: Annotated[str, typer.Option("--dtype", help="The format, f32 or f64.")] = "f32"
    stride: Annotated[int, typer.Option("--stride", min=1, help="The step between numbers of f32. 1: all.")] = 61
    count: Annotated[int, typer.Option("--count", min=1, help="The numbers of f64, in millions, drawn at random.")] = 1
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=0, help="Most processes. 0: one per processor.")] = 0
    markdown: options.Markdown = False
    json: options.Json = None


@dataclass(frozen=True)
class LibraryFunction:
    """The largest error of a function of a library among the arguments that were tried."""

    function: str
    library: str
    ulp: float = 0.0
    """The error in units in the last place of the exact value."""
    at: float = 0.0
    tried: int = 0
    special: int = 0
    """At how many arguments NaN or an infinity is returned where a number is right, or the other way round."""
    special_at: float = 0.0
    flushed: int = 0
    """At how many arguments the value would be right if a subnormal argument or result were zero: no errors."""
    worst: Sequence[float] = ()
    """The arguments with the largest errors, and these errors, not confirmed."""
    errors: Sequence[float] = ()

    def __add__(self, other: LibraryFunction) -> LibraryFunction:
        worst = self if self.ulp >= other.ulp else other
        odd = self if self.special else other
        counts = self.tried + other.tried, self.special + other.special
        flushed = self.flushed + other.flushed
        both = sorted(zip((*self.errors, *other.errors), (*self.worst, *other.worst), strict=True))[::-1][:_AROUND]
        most = [each for _, each in both], [each for each, _ in both]
        return LibraryFunction(
            self.function, self.library, worst.ulp, worst.at, *counts, odd.special_at, flushed, *most
        )


def functions(options: FunctionsOptions) -> Exit:
    """Find the largest errors of the functions of libraries, over a part of f32's numbers or random ones of f64.

    An error is that of the exact value, in units in the last place of that value. Of f64 more numbers are drawn around
    those with the largest errors.
    """
    begin = time.perf_counter()
    if (form := FORMATS.get(options.dtype)) is None:
        raise UsageError(f"--dtype {options.dtype}: it must be {' or '.join(FORMATS)}")
    names = [each for each in FUNCTIONS if fnmatchcase(each, options.function)]
    libraries = [each for each in LIBRARIES if fnmatchcase(each, options.library)]
    if not names or not libraries:
        raise UsageError(f"--function {options.function} --library {options.library}: there are none")
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(name, library) for name in names for library in libraries if found(library, name, Path(folder), form)]
        for library in libraries:
            if any(found(library, name, Path(folder), form) for name in FUNCTIONS):
                continue
            console.results().print(
                f"without {library}, which is not here: {LIBRARIES[library].install}", soft_wrap=True
            )
        starts = range(0, PATTERNS, _BATCH * options.stride) if form.name == "f32" else range(options.count)
        pieces = [(folder, *pair, form, start, options.stride) for pair in pairs for start in starts]
        answers = spread(_piece, pieces, options.jobs or os.cpu_count() or 1, "fork")
        largest_errors = {pair: LibraryFunction(*pair) for pair in pairs}
        for piece, each in track(answers, "Trying", len(pieces), console=console.progress(), transient=True):
            if each is None:
                raise InternalError(f"{piece[1]}: the process that tried it was ended from outside")
            largest_errors[piece[1:3]] += each
    print_table(PlainTable(_COLUMNS, [_row(each, form) for each in largest_errors.values()]), markdown=options.markdown)
    seconds = time.perf_counter() - begin
    which = f"one in {options.stride} numbers of f32" if form.name == "f32" else "numbers of f64"
    console.results().print(f"\n{which}, {seconds:.0f} s")
    largest = [asdict(replace(each, worst=(), errors=())) for each in largest_errors.values()]
    record = {"dtype": form.name, "stride": options.stride, "count": options.count, "seconds": seconds}
    write_record(options.json, {**record, "largest": largest})
    return Exit.OK


_COLUMNS = ("function", "library", "arguments", "largest error", "at", "published", "wrong NaN or inf", "flushed")


def _row(each: LibraryFunction, form: NumberFormat) -> Sequence[str]:
    published = LIBRARIES[each.library].published.get(form.name, {}).get(each.function)
    digits = ".9g" if form.name == "f32" else ".17g"
    special = f"{each.special:,}, such as {each.special_at:{digits}}" if each.special else "0"
    error = f"{each.ulp:,.3f}" if each.ulp < 1e4 else f"{each.ulp:.2g}"
    known = "" if published is None else f"{published:g}"
    counts = known, special, f"{each.flushed:,}"
    return each.function, each.library, f"{each.tried:,}", error, f"{each.at:{digits}}", *counts


def _piece(place: tuple[str, str, str, NumberFormat, int, int]) -> LibraryFunction:
    folder, name, library, form, start, stride = place
    if form.name == "f32":
        bits = np.arange(start, min(start + _BATCH * stride, PATTERNS), stride, dtype=np.uint64).astype(np.uint32)
        found = LibraryFunction(name, library)
        for at in range(0, len(bits), _AT_ONCE):
            found += largest(name, library, bits[at : at + _AT_ONCE].view(np.float32), Path(folder), above=found.ulp)
        return found
    draw = np.random.default_rng(start)
    bits = draw.integers(0, 1 << 63, _DRAWN, np.uint64, endpoint=True)
    bits[::2] |= draw.integers(0, 2, _DRAWN // 2, np.uint64) << np.uint64(63)
    near = draw.choice([-1.0, 1.0], _DRAWN // 2) * np.exp2(draw.uniform(-30, 10, _DRAWN // 2))
    bits[1::2] = near.view(np.uint64)
    seen = largest(name, library, bits.view(np.float64), Path(folder))
    for power in _STEPS:
        moved = draw.integers(-(1 << power), 1 << power, (len(seen.worst), _AROUND))
        around = (np.asarray(seen.worst, np.float64).view(np.int64)[:, None] + moved).ravel()
        seen += largest(name, library, around.view(np.float64), Path(folder))
    return seen


def largest(name: str, library: str, x: Floats, folder: Path, above: float = 0.0) -> LibraryFunction:
    """Return the largest error of a library's function at the arguments, (n,), and what differs in NaN or infinity. An
    error that is not `above` another is not confirmed."""
    form = next(each for each in FORMATS.values() if each.dtype == x.dtype)
    own, x = found(library, name, folder, form), x[~np.isnan(x)]
    if own is None:
        raise InternalError(f"{library} has no {name}")
    y, exact = own(x).astype(form.wide), screened(name, x, folder, form)
    with np.errstate(all="ignore"):
        right = exact.astype(form.dtype).astype(form.wide)
        same = _same(y, right)
        least, normal = form.wide(2) ** form.least, np.finfo(form.dtype).tiny
        flushed = ~same & (
            (np.abs(exact) < normal) & (np.abs(exact) > least) & (y == 0) | _of_zero(name, x, y, folder, form)
        )
        numbers = np.isfinite(y) & np.isfinite(right)
        most = form.wide(np.finfo(form.dtype).max) * (1 - form.wide(2) ** (2 - form.bits))
        odd = ~numbers & ~same & ~(np.isfinite(exact) & (np.abs(exact) > most)) & ~flushed
        error = np.where(numbers & ~flushed, np.abs(y - exact) / spacing(exact, form), 0.0)
    places = np.argpartition(error, -_AROUND)[-_AROUND:] if error.size > _AROUND else np.arange(error.size)
    places = places[np.argsort(-error[places])]
    large = places[error[places] > above][:_CONFIRMED]
    worst = max(_confirmed(name, x, y, large, form), key=lambda pair: pair[0], default=(0.0, 0.0))
    odd_at = float(x[int(odd.argmax())]) if odd.any() else 0.0
    most_off = x[places].tolist(), error[places].astype(float).tolist()
    special = int(odd.sum())
    return LibraryFunction(name, library, *worst, x.size, special, odd_at, int(flushed.sum()), *most_off)


def _same(y: Floats, right: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.isnan(y) & np.isnan(right) | (y == right))


def _of_zero(name: str, x: Floats, y: Floats, folder: Path, form: NumberFormat) -> NDArray[np.bool_]:
    """Return where an argument is subnormal and the value is that of zero."""
    taken = np.abs(x) < np.finfo(form.dtype).tiny
    taken[taken] = _same(y[taken], screened(name, np.copysign(form.dtype(0), x[taken]), folder, form))
    return taken


def spacing(exact: Floats, form: NumberFormat = FORMATS["f32"]) -> Floats:
    """Return the distance of the numbers of a format around each value."""
    power = np.where(exact == 0, form.least, np.maximum(np.frexp(exact)[1] - form.bits, form.least))
    return np.asarray(np.ldexp(form.wide(1), power))


def _confirmed(
    name: str, x: Floats, y: Floats, places: NDArray[np.intp], form: NumberFormat
) -> Iterator[tuple[float, float]]:
    """Yield the errors at these places with their arguments, as mpmath has them."""
    with mpmath.workprec(200):
        for place in places.tolist():
            value = function(name).exactly(mpmath.mpf(float(x[place])))
            if mpmath.isfinite(value) and value:
                unit = mpmath.ldexp(1, max(mpmath.frexp(value)[1] - form.bits, form.least))
                yield float(abs(value - float(y[place])) / unit), float(x[place])


_PAIRS = 1 << 18
_BY_FRACTIONS = 256
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
    print_table(PlainTable(_FMOD_COLUMNS, [_fmod_row(each) for each in errors]), markdown=options.markdown)
    write_record(options.json, {"remainders": [asdict(each) for each in errors]})
    return Exit.OK


_FMOD_COLUMNS = ("library", "format", "pairs", "wrong", "such as", "value", "right", "flushed")


def _fmod_row(each: RemainderErrors) -> Sequence[str]:
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
    pairs = draw.integers(0, 1 << whole, (_PAIRS, 2), np.uint64 if whole == 64 else np.uint32).astype(unsigned)
    found: Floats = pairs.view(form.dtype)
    each = np.arange(_PAIRS) % 3
    with np.errstate(all="ignore"):
        near = np.ldexp(draw.uniform(1, 2, (_PAIRS, 2)), draw.integers(0, _FAR, (_PAIRS, 2)) - _FAR // 2)
        found[each == 1] = near[each == 1].astype(form.dtype)
        of_many = np.rint(np.exp2(draw.uniform(0, _FAR, _PAIRS))).astype(form.dtype) * near[:, 1].astype(form.dtype)
        found[each == 2, 1] = near[each == 2, 1].astype(form.dtype)
        found[each == 2, 0] = np.nextafter(of_many, draw.choice([-np.inf, 0, np.inf], _PAIRS).astype(form.dtype))[
            each == 2
        ]
    kept: Floats = found[np.isfinite(found).all(-1) & (found[:, 1] != 0)]
    return kept


def exact(pairs: Floats, form: NumberFormat, folder: Path) -> Floats:
    """Return the exact remainders: those of the C library, of which some are confirmed by fractions."""
    right = _of_c(form, folder)(pairs)
    step = max(len(pairs) // _BY_FRACTIONS, 1)
    if list(map(float, right[::step])) != [*_by_fractions(pairs[::step])]:
        raise InternalError("the C library's fmod is not exact")
    return right


def _by_fractions(pairs: Floats) -> Iterator[float]:
    for x, y in pairs.tolist():
        left, by = Fraction(abs(x)), Fraction(abs(y))
        yield float(np.copysign(float(left - by * (left // by)), x))
