"""A draw: the editable description that a case is realised from. What a case's grid of rows is."""

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
"""The recipe whose values are those that the part gives, bit by bit."""

Shift = tuple[int, int]
"""How far an output lies from the first element of an input: elements, and rows of n elements."""


@dataclass(frozen=True)
class Placement:
    """Where one tensor goes: a layout class and its details, or explicit strides."""

    layout: str = "contiguous"
    spread: int = 1
    guard: Guard = "after"
    offset: int = 0
    step: int = 1
    """The strides of the class are multiplied by this."""
    strides: tuple[int, ...] | None = None
    """They stand in place of those of the class."""


@dataclass(frozen=True)
class Given:
    """Values bit by bit, a row of `n` after the other. Of a tensor with one element per row each is a row."""

    dtype: str
    n: int
    bits: bytes
    places: int | None = None
    """The number of places that there were, if the values are places; else None."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.bits) // max(1, self.n * ITEMSIZE[self.dtype])


@dataclass(frozen=True)
class Part:
    """One tensor of a case."""

    name: str
    dtype: str
    """The dtype of its own memory; a part in another's memory has that one's dtype."""
    place: Placement = Placement()
    recipe: str = ""
    """Only an input has one."""
    given: Given | None = None
    """What the recipe of an input starts from, where it is one of `fuzz.core.generate.given`."""
    alias: str | None = None
    """The input in whose memory it is."""
    shift: Shift | None = None
    """Where an output with an alias is not exactly in place of it; its strides are that one's or its own."""
    dense: bool = False
    """Whether such an output without strides of its own lies in C order without gaps; else it has that one's."""
    stack: str = ""
    """One of rank 2 has 'one' row for all rows of the grid, or 'many', see `Operand.stackable`."""


@dataclass(frozen=True)
class Draw:
    """One drawn case of `op`, bit-exact once `realise` fills in its values."""

    op: str
    n: int
    outer: tuple[int, ...]
    """The extents of the other axes than that of the rows."""
    params: Mapping[str, float | int]
    seed: int
    parts: tuple[Part, ...]
    """The inputs and outputs that are there, each after the inputs on whose memory it depends."""
    structured: bool | None = None
    """Whether the rounding errors of given values are not random, as of `Case`; None where the recipes say it."""
    origin: Origin | None = None
    """None: what it is made of."""
    extents: Extents = field(default_factory=dict)
    """Those of the dimensions that the first input does not have."""
    kept: Mapping[str, Kept] | None = None
    """What the values of inputs are made to be; None: what its op says that they always are."""

    @lazy
    def rows(self) -> int:
        return math.prod(self.outer)

    @lazy
    def rank(self) -> int:
        return len(self.outer) + 1

    @lazy
    def axis(self) -> int:
        """The axis of the rows, counted from the front."""
        return int(self.params.get(AXIS, -1)) % self.rank

    @lazy
    def parameters(self) -> Mapping[str, float]:
        """Every parameter of the op by name; one that the draw does not have is neutral."""
        found = {each.name: self.params.get(each.name, each.neutral) for each in OPS[self.op].parameters}
        return {name: float(value) for name, value in found.items() if value is not None}

    @lazy
    def grid(self) -> tuple[int, ...]:
        """The shape of the first input."""
        return (*self.outer[: self.axis], self.n, *self.outer[self.axis :])

    @lazy
    def sizes(self) -> Extents:
        """The extents of all named dimensions."""
        return {**OPS[self.op].sizes(self.grid, self.axis), **self.extents}

    @lazy
    def batch(self) -> tuple[int, ...]:
        """The extents of the dimensions without a name."""
        return self.outer[: self.rank - len(OPS[self.op].inner)]

    @lazy
    def work(self) -> int:
        """The number of terms of the largest step of the formula, see `Op.work`."""
        op = OPS[self.op]
        return op.work({OUTER: math.prod(self.batch), **self.sizes})

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, unless it is stacked."""
        return OPS[self.op].shape(name, self.grid, self.axis, self.extents)

    def block(self, name: str) -> tuple[int, int]:
        """How many rows a tensor has, and how long they are; unless it is stacked."""
        op = OPS[self.op]
        if name in op.alike:
            return self.rows, self.n
        shape = self.shape(name)
        if op.operand(name).axes[-1:] in ((), (OUTER,)):
            return math.prod(shape), 1
        return math.prod(shape[:-1]), shape[-1]

    def part(self, name: str) -> Part:
        """The part of that name. Raises KeyError."""
        return self._by_name[name]

    @lazy
    def _by_name(self) -> Mapping[str, Part]:
        return {part.name: part for part in self.parts}

    def with_rows(self, rows: int) -> Draw:
        """Return the draw with another number of rows, spread over the same number of axes."""
        return replace(self, outer=spread_over(rows, len(self.outer)))

    def with_params(self, **params: float | int) -> Draw:
        """Other parameters. One that has its neutral value is left out."""
        neutral, joined = OPS[self.op].neutral, {**self.params, **params}
        return replace(self, params={name: value for name, value in joined.items() if neutral.get(name) != value})

    def with_parts(self, *changed: Part) -> Draw:
        """These in place of the parts of their names."""
        by_name = {part.name: part for part in changed}
        return replace(self, parts=tuple(by_name.get(part.name, part) for part in self.parts))

    def without(self, *names: str) -> Draw:
        """Without these parts, and parameters that mean nothing without them; what was in their memory gets memory of
        its own."""
        left = (part for part in self.parts if part.name not in names)
        parts = tuple(replace(p, alias=None, shift=None) if p.alias in names else p for p in left)
        idle = {each.name for each in OPS[self.op].parameters if each.neutral is not None and each.only_with in names}
        params = {name: value for name, value in self.params.items() if name not in idle}
        return replace(self, parts=parts, params=params)


@lru_cache(maxsize=1 << 12)
def spread_over(rows: int, axes: int) -> tuple[int, ...]:
    """Return extents of `axes` axes whose product is `rows`, each hardly larger than it must be."""
    factors = []
    for left in range(axes, 0, -1):
        most = round(rows ** (1 / left))
        factor = rows if left == 1 else next((d for d in range(most, 1, -1) if rows % d == 0), 1)
        factors.append(factor)
        rows //= max(factor, 1)
    return tuple(factors)


@dataclass(frozen=True)
class Frame:
    """A case's grid of rows and columns, and how its tensors hang on it."""

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
        """Extents of the other axes."""
        return (*self.grid[: self.axis], *self.grid[self.axis + 1 :])

    @property
    def extents(self) -> Extents:
        """Those of the dimensions that the first input does not have."""
        return OPS[self.case.op].extents({name: tensor.layout.shape for name, tensor in self.case.tensors.items()})

    @property
    def sizes(self) -> Extents:
        """The extents of all named dimensions."""
        return {**OPS[self.case.op].sizes(self.grid, self.axis), **self.extents}

    @property
    def whole(self) -> Extents:
        """The same, and those that follow from them."""
        return OPS[self.case.op].whole(self.sizes) or self.sizes

    @property
    def batch(self) -> tuple[int, ...]:
        """The extents of the dimensions without a name."""
        return OPS[self.case.op].outer(self.grid, self.axis)

    def fits(self) -> bool:
        """True when every tensor has the shape that its dimensions ask for: else it is no draw's."""
        op = OPS.get(self.case.op)
        if op is None or op.main not in self.case.inputs or not self.grid:
            return False
        known, extents = {operand.name for operand in op.operands}, self.extents
        return set(self.case.tensors) <= known and all(
            tensor.layout.shape in op.possible_shapes(name, self.grid, self.axis, extents)
            for name, tensor in self.case.tensors.items()
        )
