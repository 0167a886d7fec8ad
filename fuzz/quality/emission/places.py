"""Loops, indices into arrays, and conversions between dtypes, as C text."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fuzz.quality.emission.prelude import HELD
from oracles.elementary.function import FunctionFamily
from oracles.elementary.functions import records
from oracles.formula.trace import Node
from oracles.operand import OUTER


@dataclass(frozen=True)
class LoopPlaces:
    """Text of loops over dimensions, and of indices into arrays that have some of them."""

    dims: Sequence[str]
    """All dimensions of a formula, in the order of its arrays; the last one has no gaps."""

    @staticmethod
    def variable(dim: str) -> str:
        """Return the name of the loop variable along a dimension."""
        return "r" if dim == OUTER else f"at_{dim}"

    @staticmethod
    def extent(dim: str) -> str:
        """Return the name of its upper limit."""
        return "rows" if dim == OUTER else f"n_{dim}"

    def of(self, dims: Collection[str]) -> list[str]:
        """Return these dimensions, in the order of arrays."""
        return [dim for dim in self.dims if dim in dims]

    def count(self, dims: Collection[str]) -> str:
        """Return the number of elements of these dimensions."""
        return " * ".join(map(self.extent, self.of(dims))) or "1"

    def index(self, dims: Collection[str], taken: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the index into an array of these dimensions; along some it is `taken` from elsewhere."""
        return self.within(self.of(dims), taken)

    def within(self, axes: Sequence[str], taken: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the index into an array that has its dimensions in the order of `axes`."""
        found = ""
        for dim in axes:
            place = taken.get(dim, self.variable(dim))
            so_far = f"({found})" if " " in found else found
            found = f"{so_far} * {self.extent(dim)} + {place}" if found else place
        return found or "0"

    def looped(self, dims: Collection[str], lines: Sequence[str]) -> list[str]:
        """Return lines within a function, run for each element of these dimensions."""
        return (
            [f"    {line}" for line in self.loops(dims, lines)]
            if dims
            else [f"    {line}" for line in ["{", *(f"    {line}" for line in lines), "}"]]
        )

    def loops(self, dims: Collection[str], lines: Sequence[str]) -> list[str]:
        """Return lines, run for each element of these dimensions."""
        found = list(lines)
        for dim in reversed(self.of(dims)):
            at, extent = self.variable(dim), self.extent(dim)
            found = [f"for (int64_t {at} = 0; {at} < {extent}; {at}++) {{", *(f"    {line}" for line in found), "}"]
        return found


def converted(expression: str, known: str, wanted: str) -> str:
    """Return a value that fits into the dtype `known`, converted to the dtype `wanted`."""
    if known == wanted or (wanted == "f32" and known in HELD):
        return expression
    if wanted in ("f32", "f64"):
        return f"({wanted}){expression}"
    return f"{'to' if known == 'f64' else 'round'}_{wanted}({expression})"


def number(node: Node) -> str:
    """Return the value, in f64, of a node that has no arguments and is not a tensor."""
    if node.kind == "parameter":
        return f"(f64)call->{node.label}"
    if node.kind == "extent":
        count = " * ".join(map(LoopPlaces.extent, node.over))
        return f"(f64)({count})" if " " in count else f"(f64){count}"
    if node.kind == "position":
        return f"(f64){LoopPlaces.variable(node.label)}"
    if math.isnan(node.value) or math.isinf(node.value):
        return "NAN" if math.isnan(node.value) else "INFINITY" if node.value > 0 else "-INFINITY"
    return f"({node.value.hex()})"


def counted_as(count: Node) -> str:
    """Return a count of extents, in f64."""
    if not count.args:
        return number(count)
    args = [counted_as(arg) for arg in count.args]
    if count.kind == "within":
        return args[0]
    signs = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
    return f"({f' {signs[count.kind]} '.join(args)})" if count.kind in signs else f"{count.operation}({args[0]})"


def definition(name: str, dtype: str) -> str:
    """Return the definition in C of an elementary function that calculates in a dtype: in f64, or in f32. A family has
    its constant as second argument."""
    of, made = records()[name], _made_in(dtype)
    more = f", {made} c" if isinstance(of, FunctionFamily) else ""
    return f"\nCOMMON {made} {name}_{made}({made} x{more}) {{ return {of.c}; }}\n"


def applied(name: str, dtype: str, arg: str, constant: float = 0.0) -> str:
    """Return its call with an argument, and with a constant that is not 0."""
    made = _made_in(dtype)
    more = f", ({made})({constant.hex()})" if constant else ""
    return f"{name}_{made}({arg}{more})"


def _made_in(dtype: str) -> str:
    return "f64" if dtype == "f64" else "f32"
