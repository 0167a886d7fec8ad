"""The functions of libraries at all numbers of f32, or at many: the largest error, and where. The C library's function
in double, which is good to a few of its own ulp, screens them; mpmath confirms the largest errors."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
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
from fuzz.quality.libraries import F32, F64, FUNCTIONS, LIBRARIES, found, is_installed, screened
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from oracles.elementary.functions import function

PATTERNS = 1 << 32
_BATCH = 1 << 22
_CONFIRMED = 4
"""The number of arguments of a batch, those with the largest errors, that mpmath confirms."""
_NORMAL = 2.0**-126
_LEAST = 2.0**-149


@dataclass(frozen=True)
class FunctionsOptions:
    """The options of `python3 -m fuzz.quality functions`."""

    function: Annotated[str, typer.Option("--function", help="Only these functions (a glob).")] = "*"
    library: Annotated[
        str, typer.Option("--library", help=f"Only these libraries (a glob): {', '.join(LIBRARIES)}.")
    ] = "*"
    stride: Annotated[int, typer.Option("--stride", min=1, help="The step between numbers of f32. 1: all.")] = 61
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

    def __add__(self, other: LibraryFunction) -> LibraryFunction:
        worst = self if self.ulp >= other.ulp else other
        odd = self if self.special else other
        counts = self.tried + other.tried, self.special + other.special
        flushed = self.flushed + other.flushed
        return LibraryFunction(self.function, self.library, worst.ulp, worst.at, *counts, odd.special_at, flushed)


def functions(options: FunctionsOptions) -> Exit:
    """Find the largest errors of the functions of libraries, over a part of f32's numbers or over all.

    An error is that of the exact value, in units in the last place of that value.
    """
    begin = time.perf_counter()
    names = [each for each in FUNCTIONS if fnmatchcase(each, options.function)]
    libraries = [each for each in LIBRARIES if fnmatchcase(each, options.library)]
    if not names or not libraries:
        raise UsageError(f"--function {options.function} --library {options.library}: there is none of that name")
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(name, library) for name in names for library in libraries if found(library, name, Path(folder))]
        for library in (each for each in libraries if not is_installed(each, Path(folder))):
            console.results().print(
                f"without {library}, which is not here: {LIBRARIES[library].install}", soft_wrap=True
            )
        starts = range(0, PATTERNS, _BATCH * options.stride)
        pieces = [(folder, *pair, start, options.stride) for pair in pairs for start in starts]
        answers = spread(_piece, pieces, options.jobs or os.cpu_count() or 1, "fork")
        largest_errors = {pair: LibraryFunction(*pair) for pair in pairs}
        for piece, each in track(answers, "Trying", len(pieces), console=console.progress(), transient=True):
            if each is None:
                raise InternalError(f"{piece[1]}: the process that tried it was ended from outside")
            largest_errors[piece[1:3]] += each
    print_table(PlainTable(_COLUMNS, [_row(each) for each in largest_errors.values()]), markdown=options.markdown)
    seconds = time.perf_counter() - begin
    console.results().print(f"\none in {options.stride} numbers of f32, {seconds:.0f} s")
    largest = [asdict(each) for each in largest_errors.values()]
    write_record(options.json, {"stride": options.stride, "seconds": seconds, "largest": largest})
    return Exit.OK


_COLUMNS = ("function", "library", "arguments", "largest error", "at", "published", "wrong NaN or inf", "flushed")


def _row(each: LibraryFunction) -> Sequence[str]:
    published = LIBRARIES[each.library].published.get(each.function)
    special = f"{each.special:,}, such as {each.special_at:.9g}" if each.special else "0"
    error = f"{each.ulp:,.3f}" if each.ulp < 1e4 else f"{each.ulp:.2g}"
    known = "" if published is None else f"{published:g}"
    counts = known, special, f"{each.flushed:,}"
    return each.function, each.library, f"{each.tried:,}", error, f"{each.at:.9g}", *counts


def _piece(place: tuple[str, str, str, int, int]) -> LibraryFunction:
    folder, name, library, start, stride = place
    bits = np.arange(start, min(start + _BATCH * stride, PATTERNS), stride, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    return largest(name, library, x[~np.isnan(x)], Path(folder))


def largest(name: str, library: str, x: F32, folder: Path) -> LibraryFunction:
    """Return the largest error of a library's function at the arguments, (n,), and what differs in NaN or infinity."""
    own = found(library, name, folder)
    if own is None:
        raise InternalError(f"{library} has no {name}")
    y, exact = own(x).astype(np.float64), screened(name, x, folder)
    with np.errstate(all="ignore"):
        right = exact.astype(np.float32).astype(np.float64)
        same = _same(y, right)
        flushed = ~same & (
            (np.abs(exact) < _NORMAL) & (np.abs(exact) > _LEAST) & (y == 0) | _of_zero(name, x, y, folder)
        )
        numbers = np.isfinite(y) & np.isfinite(right)
        overflowing = np.isfinite(exact) & (np.abs(exact) > np.finfo(np.float32).max * (1 - 2.0**-22))
        odd = ~numbers & ~same & ~overflowing & ~flushed
        error = np.where(numbers & ~flushed, np.abs(y - exact) / spacing(exact), 0.0)
    worst = max(_confirmed(name, x, y, error), key=lambda pair: pair[0], default=(0.0, 0.0))
    odd_at = float(x[int(odd.argmax())]) if odd.any() else 0.0
    return LibraryFunction(name, library, *worst, x.size, int(odd.sum()), odd_at, int(flushed.sum()))


def _same(y: F64, right: F64) -> NDArray[np.bool_]:
    return np.asarray(np.isnan(y) & np.isnan(right) | (y == right))


def _of_zero(name: str, x: F32, y: F64, folder: Path) -> NDArray[np.bool_]:
    """Return where an argument is subnormal and the value is that of zero."""
    taken = np.abs(x) < _NORMAL
    taken[taken] = _same(y[taken], screened(name, np.copysign(np.float32(0), x[taken]), folder))
    return taken


def spacing(exact: F64) -> F64:
    """Return the distance of the numbers of f32 around each value."""
    return np.asarray(np.where(exact == 0, 2.0**-149, np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - 24, -149))))


def _confirmed(name: str, x: F32, y: F64, error: F64) -> Iterator[tuple[float, float]]:
    """Yield the largest errors with their arguments, as mpmath has them."""
    with mpmath.workprec(150):
        for place in (each for each in np.argsort(error)[-_CONFIRMED:].tolist() if error[each] > 0):
            value = function(name).exactly(mpmath.mpf(float(x[place])))
            if mpmath.isfinite(value) and value:
                unit = float(spacing(np.asarray(float(value))))
                yield float(abs(value - float(y[place])) / unit), float(x[place])
