"""The functions of libraries at all numbers of f32, or at many: the largest error, and where. The C library's function
in double, which is good to a few of its own ulp, screens them; mpmath confirms the largest errors."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.util import find_spec
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
from fuzz.core.base.errors import InternalError
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from oracles.elementary.functions import function

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
PATTERNS = 1 << 32
_BATCH = 1 << 22
_CONFIRMED = 4
"""The number of arguments of a batch, those with the largest errors, that mpmath confirms."""
_LOOPS = """
void floats(float (*f)(float), long n, const float *x, float *y) { for (long i = 0; i < n; i++) y[i] = f(x[i]); }
void doubles(double (*f)(double), long n, const float *x, double *y) { for (long i = 0; i < n; i++) y[i] = f(x[i]); }
"""
# GNU C Library manual, Known Maximum Errors in Math Functions, x86_64: of the rounded exact result, and in whole ulp.
PUBLISHED: Mapping[tuple[str, str], int] = {
    ("C", name): ulp
    for name, ulp in {
        "acos": 1, "acosh": 2, "asin": 1, "asinh": 2, "atan": 1, "atanh": 2, "cbrt": 1, "cos": 1, "cosh": 2, "erf": 1,
        "erfc": 3, "exp": 1, "exp2": 1, "expm1": 1, "lgamma": 7, "log": 1, "log10": 2, "log1p": 1, "log2": 1, "sin": 1,
        "sinh": 2, "tan": 1, "tanh": 2, "tgamma": 8,
    }.items()
}  # fmt: skip
FUNCTIONS = tuple(name for _, name in PUBLISHED)
_FOREIGN: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "numpy": ("numpy", {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
                        "atanh": "arctanh"}),
    "scipy": ("scipy.special", {"tgamma": "gamma", "lgamma": "gammaln", "erf": "erf", "erfc": "erfc", "cbrt": "cbrt"}),
    "torch": ("torch", {}),
}  # fmt: skip
"""The module of each library, and the names that it has for functions."""
LIBRARIES = ("C", *_FOREIGN)


@dataclass(frozen=True)
class FunctionsOptions:
    """The options of `python3 -m fuzz.quality functions`."""

    function: Annotated[str, typer.Option("--function", help="Only these functions (a glob).")] = "*"
    library: Annotated[
        str, typer.Option("--library", help="Only these libraries (a glob): C, numpy, scipy, torch.")
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

    def __add__(self, other: LibraryFunction) -> LibraryFunction:
        worst = self if self.ulp >= other.ulp else other
        odd = self if self.special else other
        counts = self.tried + other.tried, self.special + other.special
        return LibraryFunction(self.function, self.library, worst.ulp, worst.at, *counts, odd.special_at)


def functions(options: FunctionsOptions) -> Exit:
    """Find the largest errors of the functions of libraries, over a part of f32's numbers or over all.

    An error is that of the exact value, in units in the last place of that value.
    """
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        loops = compiled(Path(folder))
        pairs = [
            (name, library)
            for name in FUNCTIONS
            for library in LIBRARIES
            if fnmatchcase(name, options.function) and fnmatchcase(library, options.library) and has(library, name)
        ]
        starts = range(0, PATTERNS, _BATCH * options.stride)
        pieces = [(str(loops), *pair, start, options.stride) for pair in pairs for start in starts]
        answers = spread(_piece, pieces, options.jobs or os.cpu_count() or 1, "fork")
        found = {pair: LibraryFunction(*pair) for pair in pairs}
        for piece, each in track(answers, "Trying", len(pieces), console=console.progress(), transient=True):
            if each is None:
                raise InternalError(f"{piece[1]}: the process that tried it was ended from outside")
            found[piece[1:3]] += each
    print_table(PlainTable(_COLUMNS, [_row(each) for each in found.values()]), markdown=options.markdown)
    seconds = time.perf_counter() - begin
    console.results().print(f"\none in {options.stride} numbers of f32, {seconds:.0f} s")
    largest = [asdict(each) for each in found.values()]
    write_record(options.json, {"stride": options.stride, "seconds": seconds, "largest": largest})
    return Exit.OK


_COLUMNS = ("function", "library", "arguments", "largest error", "at", "published", "wrong NaN or inf")


def _row(each: LibraryFunction) -> Sequence[str]:
    published = PUBLISHED.get((each.library, each.function))
    special = f"{each.special:,}, such as {each.special_at:.9g}" if each.special else "0"
    error = f"{each.ulp:,.3f}" if each.ulp < 1e4 else f"{each.ulp:.2g}"
    known = "" if published is None else str(published)
    return each.function, each.library, f"{each.tried:,}", error, f"{each.at:.9g}", known, special


def compiled(folder: Path) -> Path:
    """Return a shared library with the loops that call a C function at each element."""
    (folder / "loops.c").write_text(_LOOPS)
    command = ["cc", "-O2", "-shared", "-fPIC", "loops.c", "-o", "loops.so"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return folder / "loops.so"


def has(library: str, name: str) -> bool:
    """Whether a library is installed and has a function."""
    if library == "C":
        return True
    module, names = _FOREIGN[library]
    is_known = name in names or library != "scipy"
    return is_known and find_spec(library) is not None and hasattr(import_module(module), names.get(name, name))


def called(library: str, name: str, x: F32, loops: ctypes.CDLL) -> F32:
    """Return a library's function of the arguments."""
    if library == "C":
        y = np.empty_like(x)
        loops.floats(_address(f"{name}f"), ctypes.c_long(x.size), *(each.ctypes.data_as(_POINTER) for each in (x, y)))
        return y
    module, names = _FOREIGN[library]
    own = getattr(import_module(module), names.get(name, name))
    with np.errstate(all="ignore"):
        return np.asarray(own(import_module("torch").from_numpy(x)) if library == "torch" else own(x), np.float32)


def screened(name: str, x: F32, loops: ctypes.CDLL) -> F64:
    """Return the C library's function in double of the arguments."""
    y = np.empty(x.shape)
    loops.doubles(_address(name), ctypes.c_long(x.size), *(each.ctypes.data_as(_POINTER) for each in (x, y)))
    return y


_POINTER = ctypes.c_void_p


def _address(name: str) -> ctypes.c_void_p:
    return ctypes.cast(getattr(ctypes.CDLL("libm.so.6"), name), ctypes.c_void_p)


@cache
def _loaded(loops: str) -> ctypes.CDLL:
    return ctypes.CDLL(loops)


def _piece(place: tuple[str, str, str, int, int]) -> LibraryFunction:
    loops, name, library, start, stride = place
    bits = np.arange(start, min(start + _BATCH * stride, PATTERNS), stride, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    return largest(name, library, x[~np.isnan(x)], _loaded(loops))


def largest(name: str, library: str, x: F32, loops: ctypes.CDLL) -> LibraryFunction:
    """Return the largest error of a library's function at the arguments, (n,), and what differs in NaN or infinity."""
    y, exact = called(library, name, x, loops).astype(np.float64), screened(name, x, loops)
    with np.errstate(all="ignore"):
        right = exact.astype(np.float32).astype(np.float64)
        numbers = np.isfinite(y) & np.isfinite(right)
        same = np.isnan(y) & np.isnan(right) | (y == right)
        overflowing = np.isfinite(exact) & (np.abs(exact) > np.finfo(np.float32).max * (1 - 2.0**-22))
        odd = ~numbers & ~same & ~overflowing
        error = np.where(numbers, np.abs(y - exact) / spacing(exact), 0.0)
    worst = max(_confirmed(name, x, y, error), key=lambda pair: pair[0], default=(0.0, 0.0))
    return LibraryFunction(
        name, library, *worst, x.size, int(odd.sum()), float(x[int(odd.argmax())]) if odd.any() else 0.0
    )


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
