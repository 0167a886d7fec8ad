"""What an op is made of: tensors with named dimensions, parameters, and changes of sign that it bears."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from oracles.dtypes import DTYPES, INDICES, INTEGERS, Integer
from oracles.lazy import lazy

FLAGS = "flags"
"""The menu of integer inputs that are flags: 0 and 1."""
CODES = "codes"
"""The menu of integer inputs that are numbers in themselves: all numbers of the dtype."""
ENDS = "ends"
"""The menu of integer inputs that cut a dimension into pieces: each value is the place after the last one of its
piece."""
LENGTHS = "lengths"
"""The menu of integer inputs that say how much of a dimension counts, from nothing to all of it."""
Kept = tuple[tuple[str, tuple[float, ...]], ...]
"""Properties that values always have, by name, with the numbers that are part of each."""
OUTER = "..."
"""Any number of dimensions, in the order in which the first input has them. They are the first ones of a tensor."""
AXIS = "axis"
"""The parameter of every case that says which axis of the first input is the row."""
RESERVED = (AXIS, "threads")
"""Parameters that a case may have in addition to those of its op."""
MOST = 48
"""The most tensors, and the most parameters, of a case: around each tensor lies another quiet NaN, and there are 56."""
MOST_DIMS = 6
"""The most named dimensions of a tensor: kernels take no higher rank."""


class OpError(ValueError):
    """An op that contradicts itself. The message starts with the op's name."""


@dataclass(frozen=True)
class Operand:
    """One tensor of an op."""

    name: str
    dims: str
    """Its dimensions, such as "... n", "n" or "... m k". All tensors with the same name have the same extent there, and
    all with "..." the same dimensions."""
    optional: bool = False
    """Whether a case may leave it out; the formula's own default then replaces it."""
    values: str = "any"
    """The source of an input's values: the name of a menu, and names of the op's own recipes for this input; see
    `fuzz.core.generate.menus`."""
    dtype: str = ""
    """The usual dtype: the name of a dtype, or of a tensor that has the same; "" is that of the first input."""
    index: str = ""
    """For an input of integers, the dimension along which its values are places, counted from 0; for ends and lengths
    also several together, such as "t s"."""
    missing: int | None = None
    """The number below 0 that such an input may also have for no place, such as -100 for labels that do not count. The
    formula says what it means, as `outside` of `take`."""
    only_with: str = ""
    """Another operand, without which this one makes no sense."""
    kept: Kept = ()
    """The properties that its values always have, such as (("lower", ()),) for a triangular matrix; see
    `core/generate/observed.py`."""
    stackable: bool = False
    """Kernels may take such 'columns' of rank 2, with one row for all rows of the grid or one for each position along
    the axis next to n, which is the innermost of the others. One that is not stackable has rank 1, and rank 2 is
    invalid input."""

    @lazy
    def integers(self) -> tuple[str, ...]:
        """Return the dtypes that it may have if they are integers: places need more than 8 bits."""
        if self.is_code:
            return (self.dtype,)
        return INDICES if self.index else INTEGERS if self.dtype in INTEGERS else ()

    @property
    def is_code(self) -> bool:
        """Whether its integers are numbers in themselves."""
        return self.values.split()[:1] == [CODES]

    @property
    def is_flags(self) -> bool:
        """Whether its integers are 0 or 1, by its menu."""
        return self.values.split()[:1] == [FLAGS]

    @property
    def is_ends(self) -> bool:
        """Whether its integers say where pieces of a dimension end, by its menu."""
        return self.values.split()[:1] == [ENDS]

    @property
    def is_bound(self) -> bool:
        """Whether its integers are places behind the last one of something, by its menu: it may have none."""
        return self.is_ends or self.values.split()[:1] == [LENGTHS]

    @property
    def meant(self) -> str:
        """What its integers are, in words."""
        along = f"{self.values.split()[0] if self.is_bound else 'places'} along {' '.join(self.along)}"
        places = along if self.index else FLAGS if self.is_flags else "whole numbers"
        missing = "" if self.missing is None else f", or {self.missing}"
        return f"{self.dtype} {places}{missing}"

    def span(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """Return the smallest and the largest of the integers that it may have, given the extents of dimensions. If no
        integer is allowed, the largest is below the smallest."""
        if self.is_code:
            found = DTYPES[self.dtype]
            assert isinstance(found, Integer), "declared so"
            return found.lowest, found.highest
        return 0, (math.prod(extents[dim] for dim in self.along) if self.index else 2) - (not self.is_bound)

    @lazy
    def along(self) -> tuple[str, ...]:
        """Return the dimensions along which its values are places."""
        return tuple(self.index.split())

    @lazy
    def axes(self) -> tuple[str, ...]:
        """Return the names of its dimensions."""
        return tuple(self.dims.split())


@dataclass(frozen=True)
class Parameter:
    """A number that is given with every call."""

    name: str
    values: tuple[float, ...]
    """The values that are drawn, the plainest first, each rounded to float32, as kernels take it."""
    neutral: float | None = None
    """The value that a case without the parameter means; a kernel without the parameter is only given that. None: every
    case has it."""
    least: float = float("-inf")
    """The smallest allowed value."""
    only_with: str = ""
    """An operand without which it means nothing."""
    power: int = 0
    """If the inputs are scaled by s as the op says, this is scaled by s to that power."""

    def __post_init__(self) -> None:
        floats = f"{len(self.values)}f"
        rounded: tuple[float, ...] = struct.unpack(floats, struct.pack(floats, *self.values))
        object.__setattr__(self, "values", rounded)


@dataclass(frozen=True)
class Flip:
    """A change of sign that holds bit for bit: if these inputs are negated these outputs are, and no others change."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    zeros: bool = False
    """Whether a zero may have either sign afterwards: a sum that cancels is +0 whatever the signs of its terms."""
