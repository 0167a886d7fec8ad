"""How a function of a library is called with an array of f32 or f64: from a shared library, a Python package, or as a
program of its own that reads the arguments and writes the values, which keeps two C libraries out of one process."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.acceptance import TABLES

Floats = NDArray[np.floating[Any]]
Call = Callable[[Floats], Floats]
Find = Callable[[str, Path, "NumberFormat"], Call | None]
_SOURCES = Path(__file__).parent / "c"
_LIBM = "libm.so.6"


@dataclass(frozen=True)
class NumberFormat:
    """A format of arguments and results."""

    name: str
    dtype: type[np.floating[Any]]
    c: str
    """The type in C, and `suffix` what the names of C's functions end with."""
    suffix: str
    wide: type[np.floating[Any]]
    """The dtype in which the C library's function `wide_suffix` screens errors."""
    wide_suffix: str
    sleef: str
    bits: int
    least: int
    """The exponent of the least number above 0."""


FORMATS: Mapping[str, NumberFormat] = {
    "f32": NumberFormat("f32", np.float32, "float", "f", np.float64, "", "f", 24, -149),
    "f64": NumberFormat("f64", np.float64, "double", "", np.longdouble, "l", "d", 53, -1074),
}

# GNU C Library manual, Known Maximum Errors in Math Functions, x86_64: of the rounded exact result, and in whole ulp.
_GLIBC: Mapping[str, float] = {
    "acos": 1, "acosh": 2, "asin": 1, "asinh": 2, "atan": 1, "atanh": 2, "cbrt": 1, "cos": 1, "cosh": 2, "erf": 1,
    "erfc": 3, "exp": 1, "exp2": 1, "expm1": 1, "lgamma": 7, "log": 1, "log10": 2, "log1p": 1, "log2": 1, "sin": 1,
    "sinh": 2, "tan": 1, "tanh": 2, "tgamma": 8,
}  # fmt: skip
FUNCTIONS = tuple(_GLIBC)
OF_TWO = ("fmod",)
"""Functions of two numbers, each pair a row."""
# The same of double, as the file that the manual is made of has it at 0003605; of `tan` it has none.
_GLIBC_F64: Mapping[str, float] = {
    "acos": 1, "acosh": 2, "asin": 1, "asinh": 2, "atan": 1, "atanh": 2, "cbrt": 4, "cos": 1, "cosh": 2, "erf": 1,
    "erfc": 5, "exp": 1, "exp2": 1, "expm1": 1, "lgamma": 4, "log": 1, "log10": 2, "log1p": 1, "log2": 2, "sin": 1,
    "sinh": 2, "tanh": 2, "tgamma": 9,
}  # fmt: skip
# JAX, Numerical accuracy, float32 on a processor, at 031068b: of all numbers; the larger where two are named.
_JAX: Mapping[str, float] = {
    "acos": 1.5, "acosh": 4.5, "asin": 2, "asinh": 3.5, "atan": 5.5, "atanh": 3, "cbrt": 0.5, "cos": 0.5, "cosh": 25,
    "erf": 7, "erfc": 66, "exp": 1.5, "exp2": 68.5, "expm1": 6.5, "log": 1.5, "log10": 3, "log1p": 3, "log2": 2.5,
    "sin": 0.5, "sinh": 25, "tan": 0.5, "tanh": 5,
}  # fmt: skip


@dataclass(frozen=True)
class MathLibrary:
    """Where the functions of a library are, and what it says of their errors."""

    find: Find
    """Returns the function that has a name in C, or None. What is compiled for it is put into the folder."""
    install: str
    """What installs the library."""
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The largest error of each function, in ulp, by the library's own documents, by format."""


@cache
def compiled(folder: Path) -> ctypes.CDLL:
    """Return the loops that call a C function at each element."""
    own = folder / f"loops-{os.getpid()}.so"  # The workers of a pool share the folder: each compiles a file of its own.
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", _SOURCES / "loops.c", "-o", own], check=True, capture_output=True)
    return ctypes.CDLL(str(own))


def screened(name: str, x: Floats, folder: Path, form: NumberFormat) -> Floats:
    """Return the C library's function in the wider type of the arguments."""
    y = np.empty(x.shape, form.wide)
    _each(getattr(compiled(folder), f"{form.name}_screened"), ctypes.CDLL(_LIBM)[name + form.wide_suffix], x, y)
    return y


@cache
def found(library: str, name: str, folder: Path, form: NumberFormat = FORMATS["f32"]) -> Call | None:
    """Return a function of a library, or None if there is none."""
    return LIBRARIES[library].find(name, folder, form)


def _each(loop: Any, function: Any, x: Floats, y: Floats) -> None:
    pointers = (ctypes.c_void_p(each.ctypes.data) for each in (x, y))
    loop(ctypes.cast(function, ctypes.c_void_p), ctypes.c_long(len(x)), *pointers)


def _shared(file: str, *patterns: str) -> Find:
    def find(name: str, folder: Path, form: NumberFormat) -> Call | None:
        try:
            library = ctypes.CDLL(file)
        except OSError:
            return None
        symbols = (getattr(library, pattern.format(name, form=form), None) for pattern in patterns)
        symbol = next((each for each in symbols if each is not None), None)
        if symbol is None:
            return None

        def call(x: Floats) -> Floats:
            y = np.empty(len(x), x.dtype)
            _each(compiled(folder)[form.name + "_of_two" * (x.ndim == 2)], symbol, x, y)
            return y

        return call

    return find


def _package(pattern: str, names: Mapping[str, str], taken: str = "numpy:asarray", f64_by: str = "") -> Find:
    """Return how a package is found, which must not be called here: processes are forked of this one. `f64_by` is a
    variable of the environment without which it has no f64."""

    def find(name: str, _: Path, form: NumberFormat) -> Call | None:
        try:
            own = resolve_name(pattern.format(names.get(name, name)))
            take = resolve_name(taken)
        except (ImportError, AttributeError):
            return None

        def call(x: Floats) -> Floats:
            with np.errstate(all="ignore"):
                return np.asarray(own(*map(take, x.T.copy() if x.ndim == 2 else [x])))

        return call if form.name != "f64" or not f64_by or os.environ.get(f64_by) else None

    return find


def _program(command: str) -> Find:
    def find(name: str, folder: Path, form: NumberFormat) -> Call | None:
        words = shlex.split(command.format(name=name, sources=_SOURCES, form=form))
        words += ["-DOF_TWO"] * (name in OF_TWO)
        path = str(folder / f"{words[0]}-{name}-{form.name}")

        def call(x: Floats) -> Floats:
            return np.frombuffer(subprocess.run([path], input=x.tobytes(), check=True, stdout=-1).stdout, form.dtype)

        try:
            subprocess.run([*words, "-o", path], check=True, capture_output=True)
            call(np.ones((1, 2) if name in OF_TWO else 1, form.dtype))
        except (OSError, subprocess.CalledProcessError):
            return None
        return call

    return find


_GAMMAS = {"tgamma": "gamma", "lgamma": "gammaln"}
LIBRARIES: Mapping[str, MathLibrary] = {
    "C": MathLibrary(
        _shared(_LIBM, "{}{form.suffix}"), "a C library with libm.so.6", {"f32": _GLIBC, "f64": _GLIBC_F64}
    ),
    "musl": MathLibrary(
        _program(
            "musl-gcc -O2 -fno-builtin -static -DFUNCTION={name}{form.suffix} -DNUMBER={form.c} {sources}/numbers.c"
        ),
        "apt install musl-tools",
    ),
    "SLEEF": MathLibrary(
        _shared("libsleef.so.3", *(
            f"Sleef_{{}}{{form.sleef}}1_{ulp}{way}" for way in ("", "purec") for ulp in ("u10", "u15")
        ), "Sleef_{}{form.sleef}1_purec"),
        "apt install libsleef3",
        {form: {**dict.fromkeys(FUNCTIONS, 1.0), "erfc": 1.5} for form in FORMATS},  # as the suffixes say
    ),
    "PoCL": MathLibrary(
        _program("cc -O2 -DFUNCTION={name} -DNUMBER={form.c} {sources}/opencl.c -lOpenCL"),
        "apt install pocl-opencl-icd ocl-icd-opencl-dev",
        {"f32": {name: bound.ulp for name, bound in TABLES["opencl"].documented.items()}},
    ),
    "numpy": MathLibrary(
        _package("numpy:{}", {f"a{name}": f"arc{name}" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")}),
        "pip install numpy",
    ),
    "scipy": MathLibrary(_package("scipy.special:{}", _GAMMAS), "pip install scipy"),
    "torch": MathLibrary(_package("torch:{}", {}, "torch:from_numpy"), "pip install torch"),
    "jax": MathLibrary(
        _package("jax.{}", {
            **{name: f"numpy:{name}" for name in (*FUNCTIONS, *OF_TWO)},
            **{name: f"scipy.special:{_GAMMAS.get(name, name)}" for name in ("erf", "erfc", *_GAMMAS)},
        }, f64_by="JAX_ENABLE_X64"),
        "pip install jax, and for f64 JAX_ENABLE_X64=1", {"f32": _JAX},
    ),
}  # fmt: skip
"""The libraries by their names."""
