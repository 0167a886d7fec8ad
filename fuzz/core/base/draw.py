"""A draw: the editable description that a case is realised from. Also the frame of a case: its grid of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from fuzz.core.base.case import Case, Guard, Origin
from oracles.dtypes import ITEMSIZE
from oracles.lazy import lazy
from oracles.op import Extents
from oracles.operand import AXIS, OUTER, Kept
from oracles.ops import OPS

GIVEN = "given"
"""The recipe for values that are given in the part, bit by bit."""

Shift = tuple[int, int]
"""The distance of an output's first element from that of an input: elements, and rows of n elements."""


@dataclass(frozen=True)
class Placement:
    """The placement of one tensor: a layout class and its details, or explicit strides."""

    layout: str = "contiguous"
    spread: int = 1
    guard: Guard = "after"
    offset: int = 0
    step: int = 1
    """A factor by which the strides of the layout class are multiplied."""
    strides: tuple[int, ...] | None = None
    """Explicit strides in elements, in place of those of the layout class."""


@dataclass(frozen=True)
class Given:
    """Values bit by bit, row by row with `n` elements each. If a tensor has one element per row, n is 1."""

    dtype: str
    n: int
    bits: bytes
    places: int | None = None
    """For values that are places: the extent of their dimension when they were drawn; else None."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.bits) // max(1, self.n * ITEMSIZE[self.dtype])


@dataclass(frozen=True)
class Part:
    """One tensor of a case."""

    name: str
    dtype: str
    """The dtype of the part, if it has its own memory. A part in another's memory has the dtype of that part."""
    placement: Placement = Placement()
    recipe: str = ""
    """The recipe of an input; '' for an output."""
    given: Given | None = None
    """The values that an input's recipe starts from, if it is one of `fuzz.core.generate.given`."""
    alias: str | None = None
    """The input in whose memory the part lies, if any."""
    shift: Shift | None = None
    """The distance, in elements and rows, of an output from the input in whose memory it lies. None: no distance."""
    dense: bool = False
    """Whether an output with a `shift` lies in C order without gaps; if not, it has the input's strides."""
    stack: str = ""
    """For a stacked tensor of rank 2: 'one' row for all rows of the grid, or 'many', see `Operand.stackable`."""


@dataclass(frozen=True)
class Draw:
    """One drawn case of `op`. It is bit-exact once `realise` fills in its values."""

    op: str
    n: int
    outer: tuple[int, ...]
    """The extents of all axes of the first input except the axis of the rows."""
    params: Mapping[str, float | int]
    seed: int
    parts: tuple[Part, ...]
    """The inputs and outputs of the case. Each comes after the inputs in whose memory it lies."""
    structured: bool | None = None
    """For given values: whether rounding errors are systematic, so that only the worst case is sound; or None."""
    origin: Origin | None = None
    """The origin that `realise` gives to the case; None if it follows from the draw."""
    extents: Extents = field(default_factory=dict)
    """The extents of dimensions that the first input does not have."""
    kept: Mapping[str, Kept] | None = None
    """The properties that drawn values of each input are given, like being triangular; None: those the op states."""

    @lazy
    def rows(self) -> int:
        return math.prod(self.outer)

    @lazy
    def rank(self) -> int:
        return len(self.outer) + 1

    @lazy
    def axis(self) -> int:
        """Return the axis of the rows, counted from the front."""
        return int(self.params.get(AXIS, -1)) % self.rank

    @lazy
    def parameters(self) -> Mapping[str, float]:
        """Return the value of every parameter of the op, by name. Parameters that the draw does not set are neutral."""
        found = {each.name: self.params.get(each.name, each.neutral) for each in OPS[self.op].parameters}
        return {name: float(value) for name, value in found.items() if value is not None}

    @lazy
    def grid(self) -> tuple[int, ...]:
        """Return the shape of the first input."""
        return (*self.outer[: self.axis], self.n, *self.outer[self.axis :])

    @lazy
    def sizes(self) -> Extents:
        """Return the extents of all named dimensions."""
        return {**OPS[self.op].sizes(self.grid, self.axis), **self.extents}

    @lazy
    def batch(self) -> tuple[int, ...]:
        """Return the extents of the dimensions without a name."""
        return self.outer[: self.rank - len(OPS[self.op].inner)]

    @lazy
    def work(self) -> int:
        """Return the number of terms of the largest step of the formula, see `Op.work`."""
        op = OPS[self.op]
        return op.work({OUTER: math.prod(self.batch), **self.sizes})

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor that is not stacked."""
        if name not in self._shapes:
            self._shapes[name] = OPS[self.op].shape(name, self.grid, self.axis, self.extents)
        return self._shapes[name]

    @lazy
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def block(self, name: str) -> tuple[int, int]:
        """Return the number of rows of a tensor that is not stacked, and their length."""
        op = OPS[self.op]
        if name in op.alike:
            return self.rows, self.n
        shape = self.shape(name)
        if op.operand(name).axes[-1:] in ((), (OUTER,)):
            return math.prod(shape), 1
        return math.prod(shape[:-1]), shape[-1]

    def part(self, name: str) -> Part:
        """Return the part of this name. Raise KeyError if there is none."""
        return self._by_name[name]

    @lazy
    def _by_name(self) -> Mapping[str, Part]:
        return {part.name: part for part in self.parts}

    def with_rows(self, rows: int) -> Draw:
        """Return the draw with another number of rows, spread over the same number of axes."""
        return replace(self, outer=spread_over(rows, len(self.outer)))

    def with_params(self, **params: float | int) -> Draw:
        """Return the draw with other values of parameters. Parameters with their neutral value are left out."""
        neutral, joined = OPS[self.op].neutral, {**self.params, **params}
        return replace(self, params={name: value for name, value in joined.items() if neutral.get(name) != value})

    def with_parts(self, *changed: Part) -> Draw:
        """Return the draw with these parts in place of the parts of the same names."""
        by_name = {part.name: part for part in changed}
        return replace(self, parts=tuple(by_name.get(part.name, part) for part in self.parts))

    def without(self, *names: str) -> Draw:
        """Return the draw without these parts, and without parameters that have no meaning without them. Parts that lay
        in their memory get their own."""
        left = (part for part in self.parts if part.name not in names)
        parts = tuple(replace(p, alias=None, shift=None) if p.alias in names else p for p in left)
        idle = {each.name for each in OPS[self.op].parameters if each.neutral is not None and each.only_with in names}
        params = {name: value for name, value in self.params.items() if name not in idle}
        return replace(self, parts=parts, params=params)


@lru_cache(maxsize=1 << 12)
def spread_over(rows: int, axes: int) -> tuple[int, ...]:
    """Return the extents of `axes` axes whose product is `rows`, as equal as possible."""
    factors = []
    for left in range(axes, 0, -1):
        most = round(rows ** (1 / left))
        factor = rows if left == 1 else next((d for d in range(most, 1, -1) if rows % d == 0), 1)
        factors.append(factor)
        rows //= max(factor, 1)
    return tuple(factors)


@dataclass(frozen=True)
class Frame:
    """The grid of rows and columns of a case, from which the shapes of its tensors follow."""

    case: Case

    @property
    def grid(self) -> tuple[int, ...]:
        return self.case.inputs[OPS[self.case.op].main].layout.shape

    @property
    def axis(self) -> int:
        return int(self.case.params.get(AXIS, -1)) % len(self.grid)

    @property
    def n(self) -> int:
        return self.grid[self.axis]

    @property
    def outer(self) -> tuple[int, ...]:
        """The extents of all axes of the first input except the axis of the rows."""
        return (*self.grid[: self.axis], *self.grid[self.axis + 1 :])

    @property
    def extents(self) -> Extents:
        """The extents of dimensions that the first input does not have."""
        return OPS[self.case.op].extents({name: tensor.layout.shape for name, tensor in self.case.tensors.items()})

    @property
    def sizes(self) -> Extents:
        """The extents of all named dimensions."""
        return {**OPS[self.case.op].sizes(self.grid, self.axis), **self.extents}

    @property
    def whole(self) -> Extents:
        """The extents of all named dimensions, and of dimensions that follow from them."""
        return OPS[self.case.op].whole(self.sizes) or self.sizes

    @property
    def batch(self) -> tuple[int, ...]:
        """The extents of the dimensions without a name."""
        return OPS[self.case.op].outer(self.grid, self.axis)

    def fits(self) -> bool:
        """Return whether every tensor has the shape that its dimensions require. Otherwise no draw makes the case."""
        op = OPS.get(self.case.op)
        if op is None or op.main not in self.case.inputs or not self.grid:
            return False
        known, extents = {operand.name for operand in op.operands}, self.extents
        return set(self.case.tensors) <= known and all(
            tensor.layout.shape in op.possible_shapes(name, self.grid, self.axis, extents)
            for name, tensor in self.case.tensors.items()
        )
