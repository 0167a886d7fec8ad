"""The numbers that a formula compares input elements with. A mistake next to one of these numbers, such as a clamp with
another end or a label that should not count, shows with no other values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping

from oracles.dim import graphs_of
from oracles.formula.node import COMPARED, Kind, Node
from oracles.op import Op
from oracles.ops import remembered

_ALIKE: tuple[Kind, ...] = ("point", "take", "max")
"""Operations whose result is an element of their argument: comparing the result with a number compares the element."""
_Of = Callable[[float, float], float]
_ARITHMETIC: Mapping[Kind, tuple[_Of, _Of, _Of]] = {
    "add": (operator.add, operator.sub, operator.sub),
    "subtract": (operator.sub, operator.add, lambda value, c: c - value),
    "multiply": (operator.mul, operator.truediv, operator.truediv),
    "divide": (operator.truediv, operator.mul, lambda value, c: c / value),
}
"""For each operation: the operation itself, and two functions that solve value = x op c and value = c op x for x."""


@remembered(1024)
def compared(op: Op, parameters: tuple[tuple[str, float], ...] = ()) -> Mapping[str, tuple[float, ...]]:
    """Return, for each input, the finite numbers that the formula compares its elements with, given values of
    parameters. Comparisons between two inputs do not count."""
    found, known = dict[str, dict[float, None]](), dict(parameters)
    for side, other in _comparisons(op):
        number = _number(other, known)
        for name, value in _elements(side, number, known) if number is not None else ():
            if math.isfinite(value):
                found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}


@remembered(64)
def ranked(op: Op) -> frozenset[str]:
    """Return the inputs whose elements the formula puts in order, as for the k largest."""
    graphs = graphs_of(op.formula, op.inputs, op.parameters)
    chosen = (node.args[0] for graph in graphs for node in graph.nodes if node.kind in ("ranked", "place"))
    return frozenset(name for each in chosen for name, _ in _elements(each, 0.0, {}))


@remembered(64)
def hides_nan(op: Op) -> bool:
    """Whether a function in the formula has a number for a NaN, as hypot(inf, NaN) is inf and pow(1, NaN) is 1. For a
    signalling one IEEE 754 says NaN, and libraries differ."""
    graphs = graphs_of(op.formula, op.inputs, op.parameters)
    return any(node.operation in ("hypot", "pow") for graph in graphs for node in graph.nodes)


@remembered(64)
def _comparisons(op: Op) -> tuple[tuple[Node, Node], ...]:
    """Return both sides of each comparison in the formula, in both orders."""
    graphs = graphs_of(op.formula, op.inputs, op.parameters)
    pairs = [node.args for graph in graphs for node in graph.nodes if node.kind in COMPARED]
    return tuple(sides for a, b in pairs for sides in ((a, b), (b, a)))


def _elements(node: Node, value: float, known: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yield (name, element) pairs: an input from which a node is calculated by plain arithmetic, and the element for
    which the node equals `value`."""
    args = node.args
    if node.kind == "tensor":
        yield node.label, value
    elif node.kind in _ALIKE:
        yield from _elements(args[0], value, known)
    elif node.kind == "negate":
        yield from _elements(args[0], -value, known)
    elif node.operation == "abs" or (node.kind == "multiply" and args[0] is args[1]):
        root = value if node.operation == "abs" else math.sqrt(max(value, 0.0))
        for signed in (root, -root) if value >= 0.0 else ():
            yield from _elements(args[0], signed, known)
    elif node.kind in _ARITHMETIC:
        _, left, right = _ARITHMETIC[node.kind]
        for at, undone in enumerate((left, right)):
            number = _number(args[1 - at], known)
            if number is not None:
                yield from _elements(args[at], _of(undone, value, number), known)


def _number(node: Node, known: Mapping[str, float]) -> float | None:
    """Return the value of a node that is calculated from constants and parameters alone, or None for any other node."""
    if node.kind in ("constant", "parameter"):
        return node.value if node.kind == "constant" else known.get(node.label)
    numbers = list[float]()
    for arg in node.args if node.kind == "negate" or node.kind in _ARITHMETIC else ():
        number = _number(arg, known)
        if number is None:  # Only the first comparison gets here, since nodes share their operands.
            return None
        numbers.append(number)
    if node.kind == "negate":
        return -numbers[0]
    return _of(_ARITHMETIC[node.kind][0], *numbers) if numbers else None


def _of(made: _Of, one: float, other: float) -> float:
    try:
        return made(one, other)
    except ZeroDivisionError:
        return math.nan
