"""Kernels that are wrong in one thing, by a size: a simulated kernel of a formula with one node changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import Format, form
from oracles.formula.contract import Contract
from oracles.formula.tiers.problem import FormulaProblem
from oracles.formula.trace import Node, Trace, ordered
from oracles.rounding import round_to

_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


Change = Callable[[F64, float], F64]
"""What becomes of values, by a size."""


@dataclass(frozen=True, eq=False)
class ScaledMutant:
    """A kernel that is wrong in one thing, the more so the larger `size`, a power of two, is."""

    words: str
    """What is wrong, of a size d or of k ulp."""
    trace: Trace
    node: Node
    """What has another value than was calculated."""
    change: Change
    exponents: range
    """Those of the sizes that make sense."""
    of_parameter: bool = False


def mutants(problem: FormulaProblem, contract: Contract) -> Iterator[ScaledMutant]:
    """All that can be wrong with a kernel of this formula, one by one."""
    trace = problem.read(contract)[0].trace
    for node in trace.nodes:
        if node.kind in ("sum", "dot"):
            yield _term_of(trace, node)
        elif node.kind in ("add", "subtract") and any(each.kind == "tensor" for each in ordered([node])):
            yield from _summands_of(trace, node)  # what is made of positions alone says where, not how much
        elif node.kind == "function" and not node.is_exact:
            dtype = form(contract.dtypes.get(trace.names.get(node, ""), contract.compute))
            yield ScaledMutant(f"{_text(trace, node)} off by k ulp", trace, node, _off_by_ulp(dtype), range(24))
        elif node.kind == "parameter" and problem.parameters[node.label] and trace.uses[node]:
            yield ScaledMutant(f"{node.label} times 1 + d", trace, node, _scaled, range(-26, 11), of_parameter=True)
    for name, node in trace.outputs.items():
        dtype = form(contract.dtypes.get(trace.names.get(node, ""), contract.compute))
        yield ScaledMutant(f"last operation of {name} off by k ulp", trace, node, _off_by_ulp(dtype), range(24))


def _term_of(trace: Trace, node: Node) -> ScaledMutant:
    """One of the terms of a sum, the last that is not 0, is too small; for 1 it is left out."""
    around, point = _around(trace, node, 0)
    axes = tuple(axis for axis, dim in enumerate(trace.dims) if dim in node.over)

    def change(values: F64, size: float) -> F64:
        places = np.arange(math.prod(values.shape[axis] for axis in axes))
        places = places.reshape([extent if axis in axes else 1 for axis, extent in enumerate(values.shape)])
        places = np.where(values != 0.0, places, -1)
        last = (places >= 0) & (places == places.max(axes, keepdims=True, initial=-1))
        return np.where(last, values * (1.0 - size), values)

    return ScaledMutant(f"a term of {_text(trace, node)} times 1 - d", around, point, change, range(-26, 1))


def _summands_of(trace: Trace, node: Node) -> Iterator[ScaledMutant]:
    for place, arg in enumerate(node.args):
        inner = arg.args[0] if arg.kind == "point" else arg
        if inner.kind not in ("parameter", "constant"):
            around, point = _around(trace, node, place)
            words = f"{_text(trace, arg)} in {_made_for(trace, node)} times 1 + d"
            yield ScaledMutant(words, around, point, _scaled, range(-26, 1))


def _scaled(values: F64, size: float) -> F64:
    return values * (1.0 + size)


def _off_by_ulp(dtype: Format) -> Change:
    """By as many units in the last place, up or down at random."""

    def change(values: F64, size: float) -> F64:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], values.shape)
        exponents = np.maximum(np.frexp(values)[1] - dtype.precision, dtype.emin - dtype.precision + 1)
        return np.where(np.isfinite(values), round_to(values + signs * size * np.ldexp(1.0, exponents), dtype), values)

    return change


def _around(trace: Trace, of: Node, place: int) -> tuple[Trace, Node]:
    """The same graph with a node of its own for one use of a value: a point, at which nothing is rounded."""
    taken, points = dict[Node, Node](), list[Node]()
    for each in ordered([*trace.outputs.values(), *trace.locals.values()]):
        args = [taken[arg] for arg in each.args]
        if each is of:
            points.append(Node("point", (args[place],), args[place].dims))
            args[place] = points[0]
        same = all(new is before for new, before in zip(args, each.args, strict=True))
        taken[each] = each if same else replace(each, args=tuple(args))
    outputs = {name: taken[node] for name, node in trace.outputs.items()}
    return replace(trace, outputs=outputs, locals={name: taken[node] for name, node in trace.locals.items()}), points[0]


def _made_for(trace: Trace, node: Node) -> str:
    """The name of a value, or else of what it is used for first."""
    while node not in trace.names and trace.uses[node]:
        node = trace.uses[node][0]
    return trace.names.get(node) or next(name for name, each in trace.outputs.items() if each is node)


def _text(trace: Trace, node: Node) -> str:
    """The name of a value, or else how it is made of such."""
    if node in trace.names:
        return trace.names[node]
    if node.kind == "constant":
        return f"{node.value:g}"
    args = [_text(trace, arg) for arg in node.args]
    if node.kind in _SIGNS:
        text = f" {_SIGNS[node.kind]} ".join(args)
        return f"({text})" if node.kind in ("add", "subtract") else text
    if node.kind == "point":
        return args[0]
    return f"{node.operation}({', '.join(args)})" if args else node.label
