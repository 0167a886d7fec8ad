"""A kernel as its author declares it: where its source is, what it promises and what it accepts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from fuzz.base.case import ITEMSIZE
from fuzz.base.op import OPS, Op
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
    aliases: tuple[tuple[str, str], ...] = ()
    """(output, input) pairs that may be one and the same memory, such as (("y", "x"),): in place."""
    overlap: tuple[tuple[str, str], ...] = ()
    """(output, input) pairs whose memory may also overlap in part, as memmove takes it and memcpy does not."""
    takes: tuple[str, ...] = ()
    """optional tensors that may be there, such as ("weight", "rstd"); without them here they never are."""
    needs: tuple[str, ...] = ()
    """optional tensors that must be there."""
    mixed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """dtypes of tensors other than x, where they may differ from the default, as (name, dtypes): "x" stands for the
    dtype of x. By default rstd is f32, dw has the dtype of weight, everything else that of x."""
    offset: bool = False
    """a non-zero offset may be added to the weight."""
    weight_rows: bool = False
    """the weight may also have rank 2, as `Operand.stackable` says: row r of x takes its row r mod rows. Not of
    gradients, whose weight has rank 1."""
    max_n: int | None = None
    """elements of the longest row."""
    multiple_of: int = 1
    """n must be a multiple of this."""
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
        for name, allowed in self.mixed:
            for dtype in allowed:
                _one_of(f"capabilities.mixed: {name}", dtype, ("x", *ITEMSIZE))
        _one_of("capabilities.axis", self.axis, ("last", "any"))
        _one_of("capabilities.strides", self.strides, get_args(Strides))
        _one_of("capabilities.outside", self.outside, ("undefined", "rejects"))
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            raise DeclarationError(f"capabilities.alignment: {self.alignment} is not a power of two")

    def dtypes_of(self, tensor: str, x: str, weight: str | None = None) -> tuple[str, ...]:
        """The dtypes that `tensor` may have, given those of x and of the weight, if there is one."""
        default = {"rstd": "f32", "dw": weight or x}.get(tensor, "x")
        allowed = next((dtypes for name, dtypes in self.mixed if name == tensor), (default,))
        return tuple(x if dtype == "x" else dtype for dtype in allowed)


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
        _check_declaration(self)
        _one_of("isa", self.isa, get_args(Isa))


Framework = Literal["triton", "torch"]
Device = Literal["interpret", "cpu", "cuda"]
DEVICES: Mapping[Framework, tuple[Device, ...]] = {"triton": ("interpret", "cuda"), "torch": ("cpu", "cuda")}
"""where a framework's kernels can run."""


@dataclass(frozen=True)
class PythonKernel:
    """A kernel written in Python, with Triton or torch: a function of tensors in the file `source`.

    The function is called as `entry(**inputs, **params, **outputs, **options)` with torch tensors that have exactly the
    case's shapes, dtypes and strides. Optional tensors that the case does not have are not passed, `offset` where there
    is a parameter for it. Its siblings it imports relatively. It either writes
    its outputs in place, or, where it has no parameters of their names, returns them: one tensor, or a dict by name.
    It may raise ValueError or NotImplementedError, having written nothing, for what it does not take.
    """

    name: str
    op: str
    source: Path
    framework: Framework
    numerics: Numerics = PLAIN
    capabilities: Capabilities = Capabilities()
    entry: str = ""
    """name of the function; by default that of the op."""
    options: tuple[tuple[str, str | int | float | bool], ...] = ()
    """more keyword arguments, such as (("mode", "multi_wave_cached"),)."""
    devices: tuple[Device, ...] = ()
    """where it runs; by default wherever its framework does."""
    slow: bool = False
    """it takes seconds now and then, as to compile for another dtype: a search gives it fewer cases than others."""
    programs: tuple[str, ...] = ()
    """what must be installed for it to run on a processor, such as the compiler that torch.compile calls."""
    edits: tuple[tuple[str, str], ...] = ()
    laws: tuple[str, ...] = ("rerun",)
    summary: str = ""

    def __post_init__(self) -> None:
        _check_declaration(self)
        _one_of("framework", self.framework, tuple(DEVICES))
        for device in self.devices:
            _one_of("devices", device, DEVICES[self.framework])


Kernel = CKernel | PythonKernel


def _check_declaration(kernel: Kernel) -> None:
    """Raise DeclarationError for what is wrong whatever the language."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", kernel.name):
        raise DeclarationError(f"name: {kernel.name!r} may hold letters, digits, '_', '.' and '-' only")
    if not isinstance(kernel.source, Path):
        raise DeclarationError(f"source: write a path, Path(__file__).parent / {str(kernel.source)!r}")
    _one_of("op", kernel.op, tuple(OPS))
    _check_tensors(kernel.capabilities, OPS[kernel.op])
    if not isinstance(kernel.numerics.summation, get_args(Summation)):
        raise DeclarationError(f"numerics.summation: {kernel.numerics.summation!r} is not a summation structure")


def _check_tensors(able: Capabilities, op: Op) -> None:
    """Raise DeclarationError for a tensor that the op does not have: misspelt, it would never be given."""
    optional = tuple(operand.name for operand in op.operands if operand.optional)
    for name in able.takes:
        _one_of("capabilities.takes", name, optional)
    for name in able.needs:
        _one_of("capabilities.needs", name, optional)
    for name, _ in able.mixed:
        _one_of("capabilities.mixed", name, tuple(operand.name for operand in op.operands))
    for field, pairs in (("aliases", able.aliases), ("overlap", able.overlap)):
        for pair in pairs:
            if pair not in op.aliases:
                known = ", ".join(map(str, op.aliases))
                raise DeclarationError(f"capabilities.{field}: {pair} is not one of {known}, the pairs of {op.name}")
    if able.weight_rows and not any(operand.stackable for operand in op.operands):
        raise DeclarationError(f"capabilities.weight_rows: {op.name} has no weight of rank 2")
