"""A formula as evaluated over forms: the forms of its values, and what else is known about them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, form
from oracles.formula.affine.errors import taken
from oracles.formula.affine.forms import Form, Mask
from oracles.formula.affine.narrowing import Narrowed
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Inputs
from oracles.formula.trace import Node
from oracles.rounding import NAMES


@lru_cache(maxsize=4096)
def number(value: float, low: float, rank: int, minus: bool) -> Form:
    """Return a number as a form of `rank` dimensions; `low` is its part beyond float64. `minus` tells -0 from 0, which
    are the same to the cache."""
    rest = np.full((1,) * rank, abs(low)) if low else None
    return Form(np.full((1,) * rank, value), DOUBLE, bits=bits_of(value), rest=rest)


def bits_of(value: float) -> int:
    """Return the bits that suffice for a number: 1 for zero and powers of two, else all that float64 has."""
    return 1 if abs(math.frexp(value)[0]) in (0.0, 0.5) else DOUBLE.precision


def bits_of_whole(values: F64) -> int:
    """Return the bits that suffice for these whole numbers; all that float64 has if one is not whole."""
    largest = float(np.abs(values).max(initial=0.0))
    if not (largest < np.inf and (np.floor(values) == values).all()):
        return DOUBLE.precision
    return max(1, int(largest).bit_length())


def leaf(inputs: Inputs, contract: Contract, node: Node) -> Form:
    """Return the form of a tensor, a parameter or a number, as every kernel has it."""
    values = inputs.leaf(node)
    if node.kind == "tensor" and inputs.tensors[node.label].dtype.kind in "bi":
        return Form(values, DOUBLE, bits=bits_of_whole(values))
    if node.kind == "tensor":
        dtype = form(NAMES.get(inputs.tensors[node.label].dtype, DOUBLE.name))
        wild = ~np.isfinite(values) if contract.nonfinite == "unspecified" else None
        may = wild if wild is not None and wild.any() else None
        return taken(Form(values, dtype, dtype.precision, may=may), contract)
    if values.size == 1:
        return number(values.item(), node.low, values.ndim, bool(np.signbit(values.item())))
    bits = DOUBLE.precision if node.dims else max(map(bits_of, {*values.flat}))
    return Form(values, DOUBLE, bits=bits)


@dataclass(frozen=True)
class ReadFormula:
    """The forms of a formula's nodes, as far as they are built."""

    forms: dict[Node, Form] = field(default_factory=dict)
    held: dict[tuple[Node, int | None], F64] = field(default_factory=dict)
    """The numbers that replace centres, by node and its argument's index (None: its result); see `Narrowed.held`."""
    doubts: dict[Node, Mask] = field(default_factory=dict)
    """By node, the mask of elements whose exact values may take another branch, or place, than those of float64 do."""
    guesses: dict[Node, Mask] = field(default_factory=dict)
    """By node, the mask of elements for which the error of float64 decides between one value and two. That error
    depends on the rows that are calculated in the same call (see `oracles.formula.affine.narrowing`)."""
    same: dict[Node, Mask] = field(default_factory=dict)
    """By node that chooses between two values, the mask of elements where both are equal; empty before any doubt."""
    mirrored: dict[Node, Mask] = field(default_factory=dict)
    """Mask of elements that are infinite on either side, by node (see `Signs.mirrored`)."""
    errors: dict[Node, F64] = field(default_factory=dict)
    """How far float64's values may be from the formula's, before kernels round them; NaN: unknown."""

    def keep(self, node: Node, place: int | None, narrow: Narrowed) -> Form:
        """Return the form of a node, or of its argument at an index, and keep the centres that replace its values."""
        if narrow.held is not None:
            self.held[node, place] = narrow.held
        if narrow.doubt is not None:
            self.guesses[node] = narrow.doubt | self.guesses.get(node, np.zeros_like(narrow.doubt))
        return narrow.form

    @property
    def by_chance(self) -> Mapping[Node, Mask]:
        """By node, the mask of elements that the error of float64 decides: doubts and guesses."""
        found = {**self.doubts}
        for node, guess in self.guesses.items():
            found[node] = guess | found[node] if node in found else guess
        return found
