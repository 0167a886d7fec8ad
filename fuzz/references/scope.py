"""The state of reading a reference: the values, lines and dimensions so far, and how they are written."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuzz.references.dims import Axis, Dim, FurtherCallsError, MisfitError, Pair, UnreadableError
from fuzz.references.fits import Calls, counted, fitted, powers
from fuzz.references.lines import Lines, Part, called, is_point, number, template
from fuzz.references.loops import MARKERS
from fuzz.references.recording import Recording, Step, Two
from fuzz.references.sizes import Sizes, negated, of
from oracles.formula.node import Node

NOTES = "input", "constant"
"""Steps that are no operations."""
ITERATIONS = "lax.iterations"
"""The step with the number of a loop's iterations, which is read first."""
COMPARING = "lt", "le", "gt", "ge", "eq", "ne"


@dataclass(frozen=True)
class Value:
    """A tensor of the reference, expressed by the formula."""

    expression: ast.expr | None
    """The name of a line or an input, or a number; None for a condition that is not written as a number."""
    axes: tuple[Axis, ...] = ()
    has: frozenset[Dim] = frozenset()
    """The dimensions along which the expression varies. Along other axes it is constant."""
    dtype: str = "torch.float32"
    condition: ast.expr | None = None
    """For a value of 0 and 1, the condition that it is 1."""
    places: str = ""
    """The name of the integer input whose values, places, it holds; "" for others."""

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.axes)


@dataclass(frozen=True)
class Complex:
    """Complex numbers as real and imaginary part; None for a part that is 0."""

    real: Value | None
    imag: Value | None
    terms: Sequence[Sequence[tuple[str, Value]]] = field(default=((), ()), kw_only=True)
    """For a product, the products that each part is a sum of, with their signs."""
    factors: Sequence[tuple[Value, Value]] = field(default=(), kw_only=True)
    """For a product, the magnitudes of both factors, twice, if all four parts are there."""

    @property
    def parts(self) -> tuple[Value | None, Value | None]:
        """The real and the imaginary part."""
        return self.real, self.imag


COMPLEX = "complex "
"""The beginning of the names of rules for operations on complex numbers."""
Number = float | int | Two
Rule = Callable[..., Any]
"""A function of a reader and an operation's arguments, by name, that returns a `Value` or several."""


class UnknownStepError(UnreadableError):
    """An operation without a formula, whatever the extents are."""


class ComplexResultError(UnreadableError):
    """A complex result, which has no formula; its parts have."""


@dataclass
class Scope:
    """The state of reading a recording."""

    recording: Recording
    inputs: Mapping[str, tuple[Dim, ...]]
    rules: Mapping[str, Rule]
    sizes: Sizes
    lines: Lines = field(default_factory=Lines)
    cut: dict[tuple[Axis, tuple[Pair, ...]], Sequence[Axis]] = field(default_factory=dict)
    """The axes into which an axis was cut, by the axis and the extents."""
    indices: dict[str, str] = field(default_factory=dict)
    """By integer input, the dimension along which its values are places."""
    missing: Mapping[str, int] = field(default_factory=dict)
    """By integer input, the negative number that it may have in place of a place."""
    apart: dict[str, int] = field(default_factory=dict)
    """By integer input, the negative number that the reference itself distinguishes from places."""
    unnamed: dict[str, int] = field(default_factory=dict)
    """By integer input, a negative number that an operation ignores although the reference does not name it."""
    calculated: dict[str, str] = field(default_factory=dict)
    """By integer input, the first operation that calculates with its values, as text."""
    stated: Collection[str] = ()
    """Dimensions of inputs whose extents get lines of their own, since no other line states them."""
    calls: Calls = field(default_factory=dict)
    """The extents in all calls, by dimension; empty if no further calls were made."""
    series: Mapping[tuple[float, float], Sequence[float]] = field(default_factory=dict)
    """The values in all calls of each number or extent, by its values in the first two."""
    guessed: bool = False
    """Whether the expression of some number rests on two calls only."""
    iterations: Dim | None = None
    """The dimension along which a loop iterates."""
    starts: dict[str, Value] = field(default_factory=dict)
    """The initial values of a loop, by the name of the previous state."""
    stacks: dict[str, Sequence[Value]] = field(default_factory=dict)
    """The values that were stacked along a new dimension, by the line of the result."""
    taken: dict[str, tuple[Value, Dim, ast.expr, frozenset[Dim], float | None]] = field(default_factory=dict)
    """For each line that takes elements from a tensor: the tensor, the dimension and places in it, the dimensions of
    the places, and the outside value."""
    operations: int = 0
    _values: list[Any] = field(default_factory=list)
    _copies: dict[Dim, list[Dim]] = field(default_factory=dict)
    step: Step = field(init=False)

    @property
    def word(self) -> str:
        """The name of the present step in a message."""
        if self.step.op in (*NOTES, *MARKERS):
            return "a loop" if self.step.op in MARKERS else f"a {self.step.op}"
        return self.step.op if self.step.op.startswith("lax.") else f"aten.{self.step.op}"

    def add(self, text: str, hint: str, /, **given: Part | Value | Two) -> ast.expr:
        """Return the name of the line of the expression that a template makes."""
        parts = {name: self.expression(each) if isinstance(each, (Value, Two)) else each
                 for name, each in given.items()}  # fmt: skip
        return self.lines.add(template(text, **parts), hint)

    def shape(self, item: int = 0) -> tuple[Pair, ...]:
        """Return the shape of a result of the present step, as pairs of extents in both calls."""
        return self.step.shapes[item]

    def copy(self, dim: Dim, taken: Container[Dim]) -> Dim:
        """Return a dimension with the same extent that is not among `taken`."""
        copies = self._copies.setdefault(dim, [])
        found = next((each for each in copies if each not in taken), None)
        if found is None:
            found = self.sizes.new(of(dim), f"{dim.name}_copy")
            copies.append(found)
        return found

    def axis_of(self, count: Node, hint: str, at: int, *values: Value) -> Axis:
        """Return an axis with this extent for axis `at` of values: copies of the dimensions that other axes have."""
        others = {dim for each in values for place, axis in enumerate(each.axes) if place != at for dim in axis}
        return tuple(self.copy(dim, others) if dim in others else dim for dim in self.sizes.axis(count, hint))

    def expression(self, value: Value | Number) -> ast.expr:
        """Return the expression of a value or a number in the formula."""
        if not isinstance(value, Value):
            return self.number(value)
        if value.places and self.step.op not in COMPARING:
            self.calculated.setdefault(value.places, self.word + (f" ({self.step.at[0]})" if self.step.at else ""))
        if "float8" in value.dtype:
            raise UnreadableError(
                f"goes on from {value.dtype.removeprefix('torch.')}: formulas round to that at their end"
            )
        if value.expression is not None:
            return value.expression
        assert value.condition is not None
        return self.add("f.where(mask, 1.0, 0.0)", "flag", mask=value.condition)

    def place_along(self, index: Value, dim: Dim) -> ast.expr:
        """Return the expression of a place along a dimension. Raises UnreadableError for an integer input whose values
        are places along another one."""
        if not index.places:
            return self.expression(index)
        known = self.indices.setdefault(index.places, dim.name)
        if known != dim.name:
            raise UnreadableError(
                f"takes {index.places!r} for places along {dim.name!r}, which are places along {known!r}"
            )
        assert index.expression is not None
        return index.expression

    def mask(self, value: Value) -> ast.expr:
        """Return the condition that a value is set, or not 0."""
        if value.condition is not None:
            return value.condition
        return self.add("value != 0.0", "mask", value=value)

    def number(self, value: Number) -> ast.expr:
        """Return the expression of a number. If it differs between the calls, the expression has extents."""
        if not isinstance(value, Two):
            return number(float(value))
        pair = value.pair
        found = next(powers(pair, self.sizes.given.values()), None)
        self.guessed |= found is not None
        if (found is None or self.calls) and (values := self._in_all(pair)) is not None:
            found = fitted(values, self.calls)
        if found is None:
            raise UnreadableError(
                f"has the number {value.first:g} here and {value.second:g} with other extents, and how it follows from "
                "these is not known: sums, products of two, whole parts, roots and logarithms of them are"
            )
        return template(found[0], a=self.sizes.expression(found[1]))

    def count_of(self, pair: Pair) -> Node | None:
        """Return the expression, in extents, of an extent or a place; None if it is not known."""
        found = self.sizes.count(pair)
        self.guessed |= found is not None
        if (found is None or self.calls) and (values := self._in_all(pair)) is not None:
            fit = counted(values, self.calls)
            found = found if fit is None else fit
        return found

    def amount(self, given: Number) -> Node:
        """Return the expression of a whole number; a negative one that follows from extents is 0 minus a count."""
        if not isinstance(given, Two):
            return Node("constant", value=float(given))
        pair = int(given.first), int(given.second)
        if max(pair) < 0:
            return negated(self.amount(Two(-given.first, -given.second)))
        if (count := self.count_of(pair)) is None:
            raise MisfitError(f"takes {pair[0]} places here and {pair[1]} with other extents, which follow from none")
        return count

    def _in_all(self, pair: tuple[float, float]) -> Sequence[float] | None:
        """Return a number's values in all calls; None if unknown. Raises FurtherCallsError without further calls."""
        if not self.calls:
            raise FurtherCallsError
        return self.series.get(pair)

    def unrounded(self, value: Value) -> Value:
        """Return an output without a last rounding at a point, since its dtype rounds it."""
        line = self.lines.line(value.expression) if value.expression is not None else None
        if line is None or not is_point(line.expression):
            return value
        return replace(value, expression=line.expression.args[0])

    def say_extents(self, outputs: Sequence[Value]) -> None:
        """Replace the extents of dimensions that no line has any more by their expressions."""
        ends = [part for each in outputs for part in (each.expression, each.condition) if part is not None]
        nodes = (node for line in self.lines.needed(ends) for node in ast.walk(line.expression))
        calls = [node for node in nodes if isinstance(node, ast.Call) and called(node) == "position"]
        held = {getattr(node.args[0], "value", None) for node in calls}
        held |= {dim for dims in self.inputs.values() for dim in dims}
        said = _Said(self.sizes, held)
        for line in self.lines.found.values():
            line.expression = said.visit(line.expression)
            line.ways = {name: said.visit(way) for name, way in line.ways.items()}

    def place(self, dim: Dim) -> ast.expr:
        """Return the expression of the place along a dimension."""
        made = self.sizes.place(dim)
        return self.lines.add(made, dim.name) if dim.name in self.sizes.made else made


class _Said(ast.NodeTransformer):
    def __init__(self, sizes: Sizes, held: Container[Any]) -> None:
        self._sizes, self._held = sizes, held

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        dim = getattr(node.args[0], "value", None) if called(node) == "extent" else None
        if not isinstance(dim, Dim) or dim in self._held or dim.name not in self._sizes.made:
            return node
        found: ast.expr = self.visit(self._sizes.expression(self._sizes.made[dim.name][1]))
        return found
