"""What a reference has been read into so far: values, lines and dimensions, and how they are written."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuzz.references.dims import Axis, Dim, FurtherCallsError, MisfitError, Pair, UnreadableError
from fuzz.references.fits import Calls, counted, fitted, powers
from fuzz.references.lines import Lines, called, is_point, number, template
from fuzz.references.loops import MARKERS
from fuzz.references.recording import Recording, Step, Two
from fuzz.references.sizes import Sizes, negated, of
from oracles.formula.node import Node

NOTES = "input", "constant"
"""Steps that are no operations."""
ITERATIONS = "lax.iterations"
"""The step that says how often a loop iterates: it is read first."""
COMPARING = "lt", "le", "gt", "ge", "eq", "ne"


@dataclass(frozen=True)
class Value:
    """A tensor of the reference, as the formula has it."""

    expression: ast.expr | None
    """The name of a line or of an input, or a number; None for a condition that is no number yet."""
    axes: tuple[Axis, ...] = ()
    has: frozenset[Dim] = frozenset()
    """The dimensions that the expression has: along its other axes it is constant."""
    dtype: str = "torch.float32"
    condition: ast.expr | None = None
    """For a value that is 1 or 0: when it is 1."""
    places: str = ""
    """The name of the input of integers that it holds places of; "" for others."""

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.axes)


@dataclass(frozen=True)
class Complex:
    """Complex numbers by their parts; None for a part that is 0."""

    real: Value | None
    imag: Value | None

    @property
    def parts(self) -> tuple[Value | None, Value | None]:
        """The real and the imaginary part."""
        return self.real, self.imag


COMPLEX = "complex "
"""The beginning of the names of rules for operations on complex numbers."""
Number = float | int | Two
Rule = Callable[..., Any]
"""Turns the arguments of an operation, given by name, into a `Value`, or several."""


class UnknownStepError(UnreadableError):
    """An operation that has no formula, whatever the extents."""


@dataclass
class Scope:
    """The state of reading a recording: what is known of its steps so far."""

    recording: Recording
    inputs: Mapping[str, tuple[Dim, ...]]
    rules: Mapping[str, Rule]
    sizes: Sizes
    lines: Lines = field(default_factory=Lines)
    cut: dict[tuple[Axis, tuple[Pair, ...]], Sequence[Axis]] = field(default_factory=dict)
    """The axes into which others are cut."""
    indices: dict[str, str] = field(default_factory=dict)
    """The dimension along which an input of integers says places."""
    missing: Mapping[str, int] = field(default_factory=dict)
    """The numbers below 0 that inputs of integers may have as well, for no place."""
    apart: dict[str, int] = field(default_factory=dict)
    """Such numbers, as far as the reference itself tells them from places."""
    unnamed: dict[str, int] = field(default_factory=dict)
    """Such numbers that an operation would ignore, though the reference does not mention them."""
    calculated: dict[str, str] = field(default_factory=dict)
    """The first operation that uses an input of integers as numbers, in words."""
    stated: Collection[str] = ()
    """Dimensions of inputs whose extents are stated by their own lines, since no other line does."""
    calls: Calls = field(default_factory=dict)
    """The extents of dimensions in further calls too; empty without any."""
    series: Mapping[tuple[float, float], Sequence[float]] = field(default_factory=dict)
    """The values of numbers and extents in all calls, by those in the first two."""
    guessed: bool = False
    """Whether two calls alone say how some number follows from extents."""
    iterations: Dim | None = None
    """The dimension that a loop goes through."""
    starts: dict[str, Value] = field(default_factory=dict)
    """The initial values of a loop, by the name of the previous state."""
    stacks: dict[str, Sequence[Value]] = field(default_factory=dict)
    """The values that are joined along a dimension of its own, by its line."""
    taken: dict[str, tuple[Value, Dim, ast.expr, frozenset[Dim], float | None]] = field(default_factory=dict)
    """For a line whose elements are taken from a tensor: the tensor, the dimension and the places in it, the dimensions
    of the places, and the outside value."""
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

    def shape(self, item: int = 0) -> tuple[Pair, ...]:
        """Return the shape of what the step returns, each extent in both calls."""
        return self.step.shapes[item]

    def copy(self, dim: Dim, taken: Container[Dim]) -> Dim:
        """Return a dimension with the same extent that is not among `taken`."""
        copies = self._copies.setdefault(dim, [])
        found = next((each for each in copies if each not in taken), None)
        if found is None:
            found = self.sizes.new(of(dim), f"{dim.name}_copy")
            copies.append(found)
        return found

    def expression(self, value: Value | Number) -> ast.expr:
        """Return what stands for a value, or a number, in a template."""
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
        return self.lines.add(template("f.where(mask, 1.0, 0.0)", {"mask": value.condition}), "flag")

    def mask(self, value: Value) -> ast.expr:
        """Return when a value is set."""
        if value.condition is not None:
            return value.condition
        return self.lines.add(template("value != 0.0", {"value": self.expression(value)}), "mask")

    def number(self, value: Number) -> ast.expr:
        """Return a number; of one that differs between the calls, how it follows from extents."""
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
        return template(found[0], {"a": self.sizes.expression(found[1])})

    def count_of(self, pair: Pair) -> Node | None:
        """Return the expression from which an extent, or a place, follows; None if there is no known one."""
        found = self.sizes.count(pair)
        self.guessed |= found is not None
        if (found is None or self.calls) and (values := self._in_all(pair)) is not None:
            fit = counted(values, self.calls)
            found = found if fit is None else fit
        return found

    def amount(self, given: Number) -> Node:
        """Return a whole number as a count, also one below 0 that follows from extents: 0 less what does."""
        if not isinstance(given, Two):
            return Node("constant", value=float(given))
        pair = int(given.first), int(given.second)
        if max(pair) < 0:
            return negated(self.amount(Two(-given.first, -given.second)))
        if (count := self.count_of(pair)) is None:
            raise MisfitError(f"takes {pair[0]} places here and {pair[1]} with other extents, which follow from none")
        return count

    def _in_all(self, pair: tuple[float, float]) -> Sequence[float] | None:
        """Return a number in all calls; None if that is unknown. Asks for further calls if there are none."""
        if not self.calls:
            raise FurtherCallsError
        return self.series.get(pair)

    def unrounded(self, value: Value) -> Value:
        """Return an output without its last rounding, which is that of its dtype."""
        line = self.lines.line(value.expression) if value.expression is not None else None
        if line is None or not is_point(line.expression):
            return value
        return replace(value, expression=line.expression.args[0])

    def say_extents(self, outputs: Sequence[Value]) -> None:
        """State the extents of dimensions that no line has any more: their elements are taken at once by others."""
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
        """Return what counts along a dimension."""
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
