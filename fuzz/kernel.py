"""A kernel as its author declares it: where its source is, what it promises and what it accepts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from fuzz.case import ITEMSIZE
from oracles.numerics import Numerics
from oracles.summation import Summation

Isa = Literal["any", "runtime", "avx2", "avx512", "neon", "sve"]

PLAIN = Numerics()
"""a plain float32 CPU kernel."""


Strides = Literal["contiguous", "pitched", "rows", "any"]


class DeclarationError(ValueError):
    """A declaration that says something impossible. The message starts with the name of the field."""


def _one_of(field: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise DeclarationError(f"{field}: {value!r} is not one of {', '.join(known)}")


@dataclass(frozen=True)
class Capabilities:
    """What a kernel accepts. The generator gives it nothing else, except as deliberately invalid input."""

    dtypes: tuple[str, ...] = ("f32",)
    axis: Literal["last", "any"] = "last"
    """which axis may be normalised."""
    strides: Strides = "contiguous"
    """'contiguous': C order without gaps; 'pitched': unit stride along the row, one distance between rows; 'rows': unit
    stride along the row, any strides between rows; 'any'. An axis of one element may have any stride, since nothing is
    ever reached by it."""
    in_place: bool = False
    """the output may be the input's own memory."""
    alignment: int = 1
    """bytes that every row's first element must be a multiple of; 1 means any element-aligned address."""

    outside: Literal["undefined", "rejects"] = "undefined"
    """what happens with anything else: 'undefined', it is never tried; 'rejects', it is given to the kernel on purpose,
    which must return KF_REJECTED."""

    def __post_init__(self) -> None:
        dtypes: object = self.dtypes
        if isinstance(dtypes, str):  # easily written, and every letter of it would be a dtype
            raise DeclarationError(f"capabilities.dtypes: write a tuple, ({self.dtypes!r},)")
        for dtype in self.dtypes:
            _one_of("capabilities.dtypes", dtype, tuple(ITEMSIZE))
        _one_of("capabilities.axis", self.axis, ("last", "any"))
        _one_of("capabilities.strides", self.strides, get_args(Strides))
        _one_of("capabilities.outside", self.outside, ("undefined", "rejects"))
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            raise DeclarationError(f"capabilities.alignment: {self.alignment} is not a power of two")


@dataclass(frozen=True)
class CKernel:
    """A kernel written in C against `kernelfuzz.h`."""

    name: str
    op: str
    source: Path
    isa: Isa = "any"
    """instruction set that the source needs; 'any' is portable C; 'runtime' picks one when it runs, so that it is tried
    on every architecture."""
    numerics: Numerics = PLAIN
    capabilities: Capabilities = Capabilities()
    flags: tuple[str, ...] = ()
    """compiler flags that the kernel is shipped with; they follow those of the target."""
    edits: tuple[tuple[str, str], ...] = ()
    """(old, new) replacements applied to the source before it is compiled; how mutants are made."""
    laws: tuple[str, ...] = ("rerun",)
    """laws that hold bit for bit, as `kernelfuzz list laws` names them. A correct kernel may break all but the default:
    it may peel rows to an aligned address, split a reduction by the number of rows, or take another path for strides.
    One that adds in no fixed order, such as by atomic additions, declares `laws=()`."""
    summary: str = ""
    """one line for `kernelfuzz list kernels`."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name):
            raise DeclarationError(f"name: {self.name!r} may hold letters, digits, '_', '.' and '-' only")
        _one_of("isa", self.isa, get_args(Isa))
        if not isinstance(self.source, Path):
            raise DeclarationError(f"source: write a path, Path(__file__).parent / {str(self.source)!r}")
        if not isinstance(self.numerics.summation, get_args(Summation)):
            raise DeclarationError(f"numerics.summation: {self.numerics.summation!r} is not a summation structure")
