"""The gradient of a formula, as a formula: reverse accumulation over its graph.

What comes out is the exact gradient and one algorithm for it. Kernels write gradients in other ways, whose errors
differ: a contract names the algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import mpmath
import numpy as np

from oracles.doubledouble import DoubleDouble, two_sum
from oracles.elementary.functions.erf import slope_at_zero
from oracles.elementary.functions.log2 import bits_per_unit
from oracles.elementary.tables import logarithms
from oracles.formula.exact.arithmetic import Precise
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.made import completed, counts_of, grown
from oracles.formula.node import CONTRACTIONS
from oracles.formula.trace import (
    REDUCTIONS,
    FormulaError,
    Node,
    Trace,
    dot,
    exp,
    extent,
    greatest,
    ordered,
    position,
    scan,
    take,
    total,
    welford_mean,
    where,
)
from oracles.formula.trace import place as placed

_STEP = mpmath.ldexp(1, -90)
"""Differences with it are exact to 2^-180 or so of what they are compared with, at `_BITS` bits."""
_BITS = 400
_SIZE = 3


def _times(value: Node, number: DoubleDouble) -> Node:
    return value * Node("constant", value=float(number.high), low=float(number.low))


def _of_power(node: Node, g: Node) -> Node:
    """p x^(p - 1)."""
    (x,) = node.args
    less = two_sum(np.asarray(node.value), np.asarray(-1.0)) + node.low
    high, low = float(less.high), float(less.low)
    if not high:
        return g
    slope = x if (high, low) == (1.0, 0.0) else x.apply("pow", high, low)
    return g * (Node("constant", value=node.value, low=node.low) * slope)


SLOPES: dict[str, Callable[[Node, Node], Node] | None] = {
    **dict.fromkeys(("binade", "floor", "round", "sign")),
    "abs": lambda y, g: where(y.args[0] < 0.0, -g, g),
    "atan": lambda y, g: g / (1.0 + y.args[0] * y.args[0]),
    "cos": lambda y, g: -(g * y.args[0].apply("sin")),
    "erf": lambda y, g: g * _times(exp(-(y.args[0] * y.args[0])), slope_at_zero()),
    "exp": lambda y, g: g * y,
    "exp2": lambda y, g: g * _times(y, logarithms().log_two),
    "expm1": lambda y, g: g * exp(y.args[0]),
    "log": lambda y, g: g / y.args[0],
    "log1p": lambda y, g: g / (1.0 + y.args[0]),
    "log2": lambda y, g: _times(g / y.args[0], bits_per_unit()),
    "pow": _of_power,
    "rsqrt": lambda y, g: -(g * y * 0.5) / y.args[0],  # the cube of y overflows where this does not
    "sigmoid": lambda y, g: g * (y * (1.0 - y)),
    "sin": lambda y, g: g * y.args[0].apply("cos"),
    "softplus": lambda y, g: g * y.args[0].apply("sigmoid"),
    "sqrt": lambda y, g: g * 0.5 / y,
    "tanh": lambda y, g: g * (1.0 - y * y),
}
"""The adjoint of a function's argument, from its value and the adjoint of that, by the function's name. None: its slope
is zero wherever it has one."""


def gradient(graph: Trace, of: str, by: Sequence[str]) -> Trace:
    """The gradients of an output by tensors, summed with a cotangent: a formula that has the cotangent `d` + `of` as a
    tensor more, of the output's dimensions, and the outputs `d` + name.

    Raises FormulaError where the formula is not differentiable, or a maximum is more than a shift that cancels.
    """
    output = graph.outputs[of]
    cotangent = Node("tensor", dims=output.dims, label=f"d{of}")
    adjoints: dict[Node, Node] = {output: cotangent}
    for node in reversed(graph.nodes):
        if node in adjoints and node.args and node.kind != "max":
            for arg, each in zip(node.args, _parts(node, adjoints[node]), strict=True):
                if each is not None:
                    part = _reduced_to(arg, each, node)
                    adjoints[arg] = adjoints[arg] + part if arg in adjoints else part
    leaves = {node.label: node for node in graph.nodes if node.kind == "tensor"}
    missing = [name for name in by if leaves.get(name) not in adjoints]
    if missing:
        flat = {node.label for node in graph.nodes if node.kind == "function" and SLOPES[node.label] is None}
        by_steps = f" but by {', '.join(sorted(flat))}, whose slope is zero" if flat else ""
        raise FormulaError(f"{of} does not depend on {', '.join(missing)}{by_steps}")
    outputs = {f"d{name}": adjoints[leaves[name]] for name in by}
    dims = tuple(dim for dim in graph.dims if dim in output.dims)
    tensors = {**graph.tensors, cotangent.label: dims}
    counts = {**graph.counts, **counts_of(ordered(outputs.values()))}
    order = (*graph.dims, *(dim for dim in counts if dim not in graph.dims))
    found = Trace(order, tensors, outputs, {**graph.locals, cotangent.label: cotangent, **outputs}, counts)
    _check(graph, found, of, by)
    return found


def _reduced_to(arg: Node, part: Node, node: Node) -> Node:
    """What an argument gets, summed over the dimensions that it was broadcast along."""
    if node.kind in CONTRACTIONS:
        return part
    wide = node.dims.union(node.over) if node.kind in REDUCTIONS else node.dims
    for dim in sorted(wide - arg.dims):
        part = total(part, dim) if dim in part.dims else part * extent(dim)
    return part


def _parts(node: Node, g: Node) -> Sequence[Node | None]:
    """The adjoints of the arguments of a node with the adjoint g; None of those that it does not depend on smoothly."""
    kind, args = node.kind, node.args
    if kind == "add":
        return g, g
    if kind == "subtract":
        return g, -g
    if kind == "multiply":
        return g * args[1], g * args[0]
    if kind == "divide":
        return g / args[1], -(g * node / args[1])
    if kind == "dot":
        return _of_dot(node, g, 0), _of_dot(node, g, 1)
    if kind == "online_dot":
        return _of_dot(node, g, 0), _of_dot(node, g, 1), None
    if kind in ("sum", "point"):
        return (g,)
    if kind == "where":
        return None, where(args[0], g, 0.0), where(args[0], 0.0, g)
    if kind in ("at_most", "less"):
        return None, None
    if kind == "online":
        return (g * exp(args[0] - greatest(args[0], node.label)),)
    if kind == "welford_mean":
        return (g / extent(node.label),)
    if kind == "welford_squares":
        return (g * 2.0 * (args[0] - welford_mean(args[0], node.label)),)
    if kind == "ranked":
        return _of_ranked(node, g), None
    if kind == "place":
        return None, None
    if kind == "take":
        return (_of_take(node, g), *[None] * (len(args) - 1))
    if kind == "scan":
        return _of_scan(node, g)
    if kind == "negate":
        return (-g,)
    slope = SLOPES[node.label]
    return (None if slope is None else slope(node, g),)


def _of_dot(node: Node, g: Node, place: int) -> Node:
    """A contraction again, with the other argument."""
    arg, other = node.args[place], node.args[1 - place]
    over = sorted((g.dims | other.dims) - arg.dims)
    return dot(g, other, over) if over else g * other


def _of_scan(node: Node, g: Node) -> Sequence[Node]:
    """The same recurrence backwards: what h(t) is worth is its own adjoint and a(t + 1) times what h(t + 1) is."""
    (a, _, start), dim = node.args, node.label
    place, last = position(dim), extent(dim) - 1.0
    later = take(a, place + 1.0, dim, 0.0) if dim in a.dims else where(place < last, a, 0.0)
    spread = g if dim in g.dims else where(place >= 0.0, g, 0.0)
    backwards = scan(take(later, last - place, dim), take(spread, last - place, dim), dim)
    worth = take(backwards, last - place, dim)
    before = where(place <= 0.0, start, take(node, place - 1.0, dim, 0.0))
    first = where(place <= 0.0, worth * a, 0.0)
    return worth * before, worth, first


def _of_take(node: Node, g: Node) -> Node:
    """Where the table's place is that of the index; places along its own dimension that an index has are copied."""
    index, dim, place = node.args[1], node.label, position(node.label)
    if dim not in index.dims:
        return where(place <= index, where(index <= place, g, 0.0), 0.0)
    copy = position(f"{dim}_copy", extent(dim))
    return _taken_back(copied(index, dim, copy), g, dim, copy)


def _taken_back(index: Node, g: Node, dim: str, copy: Node) -> Node:
    """What elements get from all places along a copy of their dimension that took them."""
    place, moved = position(dim), take(g, copy, dim) if dim in g.dims else g
    return total(where(place <= index, where(index <= place, moved, 0.0), 0.0), copy.label)


def copied(index: Node, dim: str, copy: Node) -> Node:
    """Return an index that counts along the copy where it counted along the dimension."""
    found: dict[Node, Node] = {}
    for each in ordered([index]):
        if each.kind == "position" and each.label == dim:
            found[each] = copy
        else:
            dims = each.dims - {dim} | {copy.label} if dim in each.dims else each.dims
            found[each] = replace(each, args=tuple(found[arg] for arg in each.args), dims=dims)
    return found[index]


def _of_ranked(node: Node, g: Node) -> Node:
    """At the place where the element of the rank stands: of equal ones, of which there is no gradient, the first."""
    (table, rank), dim = node.args, node.label
    if dim not in rank.dims:
        return _of_take(Node("take", (table, placed(table, rank, dim, "first")), node.dims, dim), g)
    copy = position(f"{dim}_copy", extent(dim))
    return _taken_back(placed(table, copied(rank, dim, copy), dim, "first"), g, dim, copy)


def _check(graph: Trace, found: Trace, of: str, by: Sequence[str]) -> None:
    """Compare the gradient with a difference quotient in mpmath, in a random direction: a maximum counts as constant,
    which is right of one that cancels alone."""
    random = np.random.default_rng(0)
    given = {dim: _SIZE for dims in graph.tensors.values() for dim in dims if dim not in found.counts}
    sizes = completed(found.counts, grown(found.counts, given))
    tensors = {name: 1.0 + random.random([sizes[dim] for dim in dims]) for name, dims in found.tensors.items()}
    for node in graph.nodes:
        if node.kind == "take" and node.args[1].label in tensors:
            index = tensors[node.args[1].label]  # 0, 1, 1, 0, ...: some elements several times, and some not at all
            tensors[node.args[1].label] = np.arange(float(index.size)).reshape(index.shape) ** 2 % _SIZE
    parameters = {node.label: 0.5 for node in graph.nodes if node.kind == "parameter"}
    directions = {name: random.normal(size=tensors[name].shape) for name in by}
    with mpmath.workprec(_BITS):
        slopes = evaluate(Inputs(found, tensors, parameters), Precise())
        along = mpmath.mpf(0)
        for name in by:
            node = found.outputs[f"d{name}"]
            shape = [sizes[dim] if dim in graph.tensors[name] else 1 for dim in found.dims]
            order = [dim for dim in graph.dims if dim in graph.tensors[name]]
            moved = directions[name].transpose([graph.tensors[name].index(dim) for dim in order]).reshape(shape)
            along += (np.broadcast_to(slopes[node], shape) * moved).sum()
        ends = [_loss(graph, of, tensors, parameters, directions, side * _STEP) for side in (-1, 1)]
        quotient = (ends[1] - ends[0]) / (2 * _STEP)
        if not abs(quotient - along) <= abs(quotient) * mpmath.ldexp(1, -100):
            raise FormulaError(
                f"the gradient of {of} is not what differences of it are: it takes maxima for constants, which is right"
                " only where they cancel, as in exp(x - greatest(x))"
            )


def _loss(
    graph: Trace, of: str, tensors: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]],
    parameters: Mapping[str, float], directions: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]],
    step: mpmath.mpf,
) -> mpmath.mpf:  # fmt: skip
    """The output times its cotangent, with the tensors moved along the directions."""
    exact = Precise().lift
    moved = {name: exact(tensors[name]) for name in graph.tensors}
    for name, direction in directions.items():
        moved[name] = np.asarray(moved[name] + exact(direction) * step, dtype=object)
    inputs = Inputs(graph, moved, parameters)
    value = evaluate(inputs, Precise())[graph.outputs[of]]
    dims = [dim for dim in graph.dims if dim in graph.outputs[of].dims]
    cotangent = tensors[f"d{of}"].reshape([inputs.extents[dim] if dim in dims else 1 for dim in graph.dims])
    return (value * exact(cotangent)).sum()
