"""A kernel as its author declares it: where its source is, what it promises and what it accepts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from oracles.numerics import Numerics

Isa = Literal["any", "runtime", "avx2", "avx512", "neon", "sve"]

PLAIN = Numerics()
"""a plain float32 CPU kernel."""


@dataclass(frozen=True)
class Capabilities:
    """What a kernel accepts. The generator gives it nothing else, except as deliberately invalid input."""

    dtypes: tuple[str, ...] = ("f32",)
    axis: Literal["last", "any"] = "last"
    """which axis may be normalised."""
    strides: Literal["contiguous", "pitched", "any"] = "contiguous"
    """'contiguous': C order without gaps; 'pitched': unit stride along the row, any distance between rows; 'any'."""
    in_place: bool = False
    """the output may be the input's own memory."""
    alignment: int = 1
    """bytes that every row's first element must be a multiple of; 1 means any element-aligned address."""


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
    summary: str = ""
    """one line for `kernelfuzz list kernels`."""
