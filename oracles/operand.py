"""The parts of an op's declaration: tensors with named dimensions, parameters, and changes of sign that keep bits."""

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
"""The menu of integer inputs that cut a dimension into pieces: each value is the place after the last of a piece."""
LENGTHS = "lengths"
"""The menu of integer inputs that say how many places of a dimension count, from none to all."""
Kept = tuple[tuple[str, tuple[float, ...]], ...]
"""Properties that values always have: pairs of a name and the numbers that belong to it."""
OUTER = "..."
"""The name that stands for any number of unnamed dimensions, the same for all tensors. They come first in a tensor."""
AXIS = "axis"
"""The parameter of every case that names the axis of the first input along which a row lies."""
RESERVED = (AXIS, "threads")
"""Parameters that a case may have in addition to those of its op."""
MOST = 48
"""The most tensors, and the most parameters, of a case. Each tensor has margins of a quiet NaN of its own: 56 exist."""
MOST_DIMS = 6
"""The most named dimensions of a tensor, since kernels take no higher rank."""


class OpError(ValueError):
    """An op that contradicts itself. The message starts with the op's name."""


@dataclass(frozen=True)
class Operand:
    """One tensor of an op."""

    name: str
    dims: str
    """The dimensions, such as "... n", "n" or "... m k". A name has the same extent in all tensors, and "..." stands
    for the same dimensions in all."""
    optional: bool = False
    """Whether a case may leave the tensor out. Then the default of the formula's argument applies."""
    values: str = "any"
    """The source of an input's values: the name of a menu, then names of the op's own recipes for this input, separated
    by spaces; see `fuzz.core.generate.menus`."""
    dtype: str = ""
    """The usual dtype: the name of a dtype, or of a tensor with the same dtype; "" means that of the first input."""
    index: str = ""
    """For an integer input, the dimension along which its values are places, counted from 0. Ends and lengths may have
    several dimensions together, such as "t s"."""
    missing: int | None = None
    """A negative number that an integer input may have in place of a place, such as -100 for labels that do not count.
    The formula gives it a meaning by `outside` of `take`."""
    only_with: str = ""
    """The name of another operand, without which no case has this one."""
    kept: Kept = ()
    """The properties that the values always have, such as (("lower", ()),) for a triangular matrix; see
    `core/generate/observed.py`."""
    stackable: bool = False
    """Whether kernels may take an input of dimension n also with rank 2: with one row for all rows of the first input,
    or one row for each position along its innermost axis other than n. Otherwise rank 2 is invalid input."""

    @lazy
    def integers(self) -> tuple[str, ...]:
        """Return the integer dtypes that the tensor may have, () if none; places need more than 16 bits."""
        if self.is_code:
            return (self.dtype,)
        return INDICES if self.index else INTEGERS if self.dtype in INTEGERS else ()

    @property
    def is_code(self) -> bool:
        """Whether the operand's integers are numbers, not places or flags, by its menu."""
        return self.values.split()[:1] == [CODES]

    @property
    def is_flags(self) -> bool:
        """Whether the operand's integers are 0 or 1, by its menu."""
        return self.values.split()[:1] == [FLAGS]

    @property
    def is_ends(self) -> bool:
        """Whether the operand's integers say where pieces of a dimension end, by its menu."""
        return self.values.split()[:1] == [ENDS]

    @property
    def is_bound(self) -> bool:
        """Whether the integers are ends or lengths, by the menu: such a value may be as large as the extent."""
        return self.is_ends or self.values.split()[:1] == [LENGTHS]

    @property
    def meant(self) -> str:
        """The meaning of the operand's integers, in words."""
        along = f"{self.values.split()[0] if self.is_bound else 'places'} along {' '.join(self.along)}"
        places = along if self.index else FLAGS if self.is_flags else "whole numbers"
        missing = "" if self.missing is None else f", or {self.missing}"
        return f"{self.dtype} {places}{missing}"

    def span(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """Return the smallest and the largest integer that the input may have for these extents. If no integer is
        allowed, the largest is below the smallest."""
        if self.is_code:
            found = DTYPES[self.dtype]
            assert isinstance(found, Integer), "declared so"
            return found.lowest, found.highest
        return 0, (math.prod(extents[dim] for dim in self.along) if self.index else 2) - (not self.is_bound)

    @lazy
    def along(self) -> tuple[str, ...]:
        """Return the dimensions along which the values are places."""
        return tuple(self.index.split())

    @lazy
    def axes(self) -> tuple[str, ...]:
        """Return the names of the dimensions."""
        return tuple(self.dims.split())


@dataclass(frozen=True)
class Parameter:
    """A number that is given with every call."""

    name: str
    values: tuple[float, ...]
    """The values that are drawn, the plainest first, each rounded to float32, the dtype in which kernels take them."""
    neutral: float | None = None
    """The value that the parameter has in a case without it. A kernel without the parameter only gets cases with this
    value. None: every case has the parameter."""
    least: float = float("-inf")
    """The smallest allowed value."""
    only_with: str = ""
    """The name of an operand without which the parameter has no meaning."""
    power: int = 0
    """The power of s by which the parameter is multiplied if inputs are scaled by s, see `Op.scaling`."""

    def __post_init__(self) -> None:
        floats = f"{len(self.values)}f"
        rounded: tuple[float, ...] = struct.unpack(floats, struct.pack(floats, *self.values))
        object.__setattr__(self, "values", rounded)


@dataclass(frozen=True)
class Flip:
    """A change of sign that holds bit for bit: if these inputs are negated, these outputs are, and no others change."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    zeros: bool = False
    """Whether a zero of these outputs may have either sign: a sum that cancels is +0, whatever its terms are."""
