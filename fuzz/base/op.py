"""The ops' operands as data: which tensors an op has, how each one's shape follows from x, what may be left out.

What an op means is the oracle's business; this is what generation, acceptance, laws and shrinking need to know of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

Role = Literal["grid", "columns", "rows"]
"""'grid': the shape of x; 'columns': one element per column, (n,); 'rows': one per row, the shape of x without the
normalised axis."""

Menu = Literal["any", "addend", "gradient", "weight", "rstd", "none"]
"""What an input's values are drawn from, see `fuzz.generate.menus`: anything at all; something to add to x; a gradient
of y; weights; the reciprocal root of x. Outputs have none."""


@dataclass(frozen=True)
class Operand:
    """One tensor of an op."""

    name: str
    role: Role
    optional: bool = False
    menu: Menu = "none"
    only_with: str = ""
    """Another operand, without which this one makes no sense."""
    stackable: bool = False
    """Kernels may take such 'columns' of rank 2, with one row for all rows of x or one for each position along the axis
    next to the normalised one, which is the innermost of the others. A weight that is not stackable, as that of a
    gradient, has rank 1, and rank 2 is invalid input."""


@dataclass(frozen=True)
class Op:
    """What tensors and parameters an op has."""

    name: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    aliases: tuple[tuple[str, str], ...]
    """A kernel may declare that these (output, input) pairs share memory."""
    params: tuple[str, ...] = ("eps", "axis", "offset")
    """A case has no others; one without an offset has 0."""

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Inputs, then outputs."""
        return *self.inputs, *self.outputs

    def is_input(self, name: str) -> bool:
        """True of an input's name."""
        return name in self._inputs

    def operand(self, name: str) -> Operand:
        """The input or output of that name. Raises KeyError."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> Mapping[str, Operand]:
        return {operand.name: operand for operand in self.operands}

    @cached_property
    def _inputs(self) -> frozenset[str]:
        return frozenset(operand.name for operand in self.inputs)

    def shape(self, name: str, grid: tuple[int, ...], axis: int) -> tuple[int, ...]:
        """Shape of an operand, given that of x and the normalised axis."""
        role = self.operand(name).role
        if role == "grid":
            return grid
        return (grid[axis],) if role == "columns" else (*grid[:axis], *grid[axis + 1 :])

    def shapes(self, name: str, grid: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], ...]:
        """All shapes that an operand of a case may have, the usual one first; of a weight also invalid ones."""
        usual = self.shape(name, grid, axis)
        if self.operand(name).menu != "weight":
            return (usual,)
        return usual, (1, *usual), (adjacent_extent(grid, axis), *usual)


def adjacent_extent(grid: tuple[int, ...], axis: int) -> int:
    """Extent of the innermost axis other than the normalised one; 1 where there is none."""
    others = grid[:axis] + grid[axis + 1 :]
    return others[-1] if others else 1


_X = Operand("x", "grid", menu="any")
_DY = Operand("dy", "grid", menu="gradient")
_WEIGHT = Operand("weight", "columns", optional=True, menu="weight")
_WEIGHTS = replace(_WEIGHT, stackable=True)
_RSTD = Operand("rstd", "rows", optional=True)
_GIVEN_RSTD = Operand("rstd", "rows", optional=True, menu="rstd")
_GRADIENT = (Operand("dx", "grid"), Operand("dw", "columns", optional=True, only_with="weight"))

OPS: Mapping[str, Op] = {
    op.name: op
    for op in (
        Op("rms_norm", (_X, _WEIGHTS), (Operand("y", "grid"), _RSTD), (("y", "x"),)),
        Op(
            "fused_add_rms_norm",
            (_X, Operand("residual", "grid", menu="addend"), _WEIGHTS),
            (Operand("y", "grid"), Operand("sum", "grid", optional=True), _RSTD),
            (("y", "x"), ("sum", "residual"), ("sum", "x"), ("y", "residual")),
        ),
        Op("rms_norm_backward", (_X, _DY, _WEIGHT, _GIVEN_RSTD), _GRADIENT, (("dx", "dy"), ("dx", "x"))),
        Op(
            "fused_add_rms_norm_backward",
            (_X, _DY, Operand("dsum", "grid", optional=True, menu="gradient"), _WEIGHT, _GIVEN_RSTD),
            (_GRADIENT[0], Operand("dresidual", "grid", optional=True), _GRADIENT[1]),
            (("dx", "dy"), ("dx", "dsum"), ("dresidual", "dsum"), ("dresidual", "dy")),
        ),
    )
}
"""Every op by name; the same ones that `oracles.ops` judges."""
