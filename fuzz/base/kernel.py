"""A kernel as its author declares it: where its source is, what it promises and what it accepts."""

from __future__ import annotations

import re
from dataclasses import Field, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from fuzz.base.case import ITEMSIZE
from fuzz.base.op import OPS, Op
from oracles.numerics import Numerics
from oracles.summation import Summation

PLAIN = Numerics()
"""a plain float32 CPU kernel."""


Strides = Literal["contiguous", "pitched", "rows", "any"]


class DeclarationError(ValueError):
    """A declaration that says something impossible. The message starts with the name of the field."""


def one_of(field: str, value: object, known: tuple[str, ...]) -> None:
    """Raise DeclarationError unless `value` is one of those."""
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
            one_of("capabilities.dtypes", dtype, tuple(ITEMSIZE))
        for name, allowed in self.mixed:
            for dtype in allowed:
                one_of(f"capabilities.mixed: {name}", dtype, ("x", *ITEMSIZE))
        one_of("capabilities.axis", self.axis, ("last", "any"))
        one_of("capabilities.strides", self.strides, get_args(Strides))
        one_of("capabilities.outside", self.outside, ("undefined", "rejects"))
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            raise DeclarationError(f"capabilities.alignment: {self.alignment} is not a power of two")

    def dtypes_of(self, tensor: str, x: str, weight: str | None = None) -> tuple[str, ...]:
        """The dtypes that `tensor` may have, given those of x and of the weight, if there is one."""
        default = {"rstd": "f32", "dw": weight or x}.get(tensor, "x")
        allowed = next((dtypes for name, dtypes in self.mixed if name == tensor), (default,))
        return tuple(x if dtype == "x" else dtype for dtype in allowed)


CONTIGUOUS_F32 = Capabilities()
"""of a kernel that takes nothing else."""


class Kernel:
    """A kernel as its author declares it: what kernels of every kind say. Each kind is a frozen dataclass, beside its
    adapter, and has these fields where its authors expect them."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    name: str
    op: str
    source: Path
    numerics: Numerics
    capabilities: Capabilities
    edits: tuple[tuple[str, str], ...]
    """(old, new) replacements applied to the source before it is built; how mutants are made."""
    laws: tuple[str, ...]
    """laws that hold bit for bit, as `kernelfuzz list laws` names them. A correct kernel may break all but the default:
    it may peel rows to an aligned address, split a reduction by the number of rows, or take another path for strides.
    One that adds in no fixed order, such as by atomic additions, declares `laws=()`."""
    summary: str
    """one line for `kernelfuzz list kernels`."""

    slow: bool = False
    """a result takes it seconds now and then."""
    shares_memory: ClassVar[bool] = True
    """it can be given strides that are negative, storages that are sparse, one input in another's memory and an output
    that overlaps an input in part."""

    @property
    def kind(self) -> str:
        """The name of its adapter, with which the ids of its targets begin."""
        raise NotImplementedError

    @property
    def takes_threads(self) -> bool:
        """It can be told how many threads to use."""
        return False

    def __post_init__(self) -> None:
        """Raise DeclarationError for what is wrong whatever the kind."""
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name):
            raise DeclarationError(f"name: {self.name!r} may hold letters, digits, '_', '.' and '-' only")
        if not isinstance(self.source, Path):
            raise DeclarationError(f"source: write a path, Path(__file__).parent / {str(self.source)!r}")
        one_of("op", self.op, tuple(OPS))
        _check_tensors(self.capabilities, OPS[self.op])
        if not isinstance(self.numerics.summation, get_args(Summation)):
            raise DeclarationError(f"numerics.summation: {self.numerics.summation!r} is not a summation structure")


def _check_tensors(able: Capabilities, op: Op) -> None:
    """Raise DeclarationError for a tensor that the op does not have: misspelt, it would never be given."""
    optional = tuple(operand.name for operand in op.operands if operand.optional)
    for name in able.takes:
        one_of("capabilities.takes", name, optional)
    for name in able.needs:
        one_of("capabilities.needs", name, optional)
    for name, _ in able.mixed:
        one_of("capabilities.mixed", name, tuple(operand.name for operand in op.operands))
    for field, pairs in (("aliases", able.aliases), ("overlap", able.overlap)):
        for pair in pairs:
            if pair not in op.aliases:
                known = ", ".join(map(str, op.aliases))
                raise DeclarationError(f"capabilities.{field}: {pair} is not one of {known}, the pairs of {op.name}")
    if able.weight_rows and not any(operand.stackable for operand in op.operands):
        raise DeclarationError(f"capabilities.weight_rows: {op.name} has no weight of rank 2")
