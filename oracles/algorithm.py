"""The graph of an op, for the operands that a case has and the algorithms that a kernel declares.

An algorithm is another way to calculate the same exact value. It replaces one local of the op's formula; its arguments
are locals, tensors and parameters of the formula, by their names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracles.formula.contract import ALL
from oracles.formula.exact.arithmetic import Float64, Precise
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.exact.lengths import BESIDE
from oracles.formula.exact.rigorous import Rigorous
from oracles.formula.made import completed, grown
from oracles.formula.trace import FormulaError, Node, Trace, ordered, run, trace
from oracles.op import Op

FORMULA = "formula"
"""The name that stands for the formula's own way to calculate a local."""
_BITS = 400
_AGREE = mpmath.ldexp(1, -200)
"""The relative difference that two algorithms may have, calculated with `_BITS` bits."""
_SIZE = 3
_MOST_TERMS = 1 << 14
"""Algorithms are compared in mpmath if no step has more elements than this: windows of windows have more terms than
elements."""
_MOST_ELEMENTS = 1 << 11
"""If fixed extents give a tensor more elements, both are compared in float64 instead, with bounds of its errors: mpmath
takes seconds for each graph of some ten thousand elements."""


def traced(
    op: Op,
    present: Collection[str],
    algorithm: Mapping[str, str] | None = None,
    stacked: Collection[str] = (),
    *,
    beside: bool = False,
) -> Trace:
    """Return the graph of an op for the operands and parameters that a case has, with these algorithms.

    What is absent is not passed to the formula, whose own defaults apply; absent outputs are not calculated. "..."
    stands for all dimensions but that of the rows. Stacked operands have the dimensions of the first input, and all
    tensors of problems that lie beside each other have `BESIDE` too. An algorithm for a local that the formula does not
    calculate from these operands changes nothing. Raises FormulaError for an algorithm that the op does not have, and
    for one whose value is not that of the local.
    """
    return _traced(op, frozenset(present), tuple(sorted((algorithm or {}).items())), frozenset(stacked), beside)


@lru_cache(maxsize=1024)
def _traced(
    op: Op, present: frozenset[str], algorithm: tuple[tuple[str, str], ...], stacked: frozenset[str], beside: bool
) -> Trace:
    if algorithm:
        plain = graph = _traced(op, present, (), stacked, beside)
        for local, name in sorted(algorithm, key=lambda pair: [*op.algorithms, pair[0]].index(pair[0])):
            function = None if local == ALL else _function(op, local, name)
            if function is not None and local in graph.locals and graph.locals[local].args:
                graph = _with(graph, local, function)
        if way := dict(algorithm).get(ALL):
            from oracles.formula.expansion import expanded

            graph = expanded(graph, way)
        _agree(op, plain, graph, algorithm)
        return graph
    whole = present | {each.name for each in op.outputs}
    if whole != present:
        graph = _traced(op, whole, (), stacked, beside)  # so that formulas with fewer outputs have the same nodes
        outputs = {name: node for name, node in graph.outputs.items() if name in present}
        if not outputs:
            raise FormulaError(f"{op.name}: a case has at least one of the outputs {', '.join(graph.outputs)}")
        return Trace(graph.dims, graph.tensors, outputs, graph.locals, graph.counts)
    main = op.operand(op.main)
    outer = (BESIDE,) if beside else ()
    tensors = {
        each.name: (*outer, *(main if each.name in stacked else each).axes)
        for each in op.inputs
        if each.name in present
    }
    graph = trace(op.formula, tensors, [each.name for each in op.parameters if each.name in present])
    missing = [each.name for each in op.outputs if each.name not in graph.outputs]
    if missing:
        raise FormulaError(f"{op.name}: its formula returns no {', '.join(missing)}")
    return graph


@lru_cache(maxsize=1024)
def is_addend(op: Op, name: str) -> bool:
    """Whether an operand that may be absent is added to something: in its place a kernel may add a zero."""
    known = [*(each.name for each in op.operands), *(each.name for each in op.parameters)]
    without, whole = traced(op, [each for each in known if each != name]), traced(op, known)
    random, parameters = np.random.default_rng(0), {each.name: 0.5 for each in op.parameters}
    tensors = _tensors(op, whole, random)
    tensors[name] = np.zeros_like(tensors[name])
    found, zeroed = (evaluate(Inputs(graph, tensors, parameters), Float64()) for graph in (without, whole))
    return all(
        np.array_equal(found[node], zeroed[whole.outputs[output]], equal_nan=True)
        for output, node in without.outputs.items()
    )


def _function(op: Op, local: str, name: str) -> Callable[..., Any] | None:
    known = op.algorithms.get(local)
    if known is None:
        raise FormulaError(f"{op.name} has no algorithms of {local!r}; it has some of {', '.join(op.algorithms)}")
    if name != FORMULA and name not in known:
        raise FormulaError(f"{op.name} has no algorithm {name!r} of {local}; it has {', '.join((FORMULA, *known))}")
    return known.get(name)


def _with(graph: Trace, local: str, function: Callable[..., Any]) -> Trace:
    given = dict[str, Node]()
    for name, each in inspect.signature(function).parameters.items():
        if name in graph.locals:
            given[name] = graph.locals[name]
        elif each.default is inspect.Parameter.empty:
            raise FormulaError(f"{local}: its algorithm takes {name!r}, which the formula does not have here")
    node, own = run(function, given)
    if not isinstance(node, Node) or node.dims != graph.locals[local].dims:
        raise FormulaError(f"{local}: its algorithm gives {node!r}, which is no value of its dimensions")
    return _replaced(graph, local, node, own)


def _replaced(graph: Trace, name: str, node: Node, own: Mapping[str, Node]) -> Trace:
    """Return the graph with another node in place of a local, wherever it is used; `own` are names for its parts.
    Raises FormulaError if the node is made of the local itself."""
    old = graph.named(name)
    if node is old:  # the algorithm changes nothing for these operands
        return graph
    if old in ordered([node]):
        raise FormulaError(f"{name}: an algorithm cannot take the value that it is to calculate")
    taken: dict[Node, Node] = {}
    for each in ordered([*graph.outputs.values(), *graph.locals.values()]):
        taken[each] = node if each is old else each.made_of(taken)
    called = {each: taken[value] for each, value in graph.locals.items()}
    called |= {each: value for each, value in own.items() if each not in called}
    outputs = {each: taken[value] for each, value in graph.outputs.items()}
    return Trace(graph.dims, graph.tensors, outputs, called, graph.counts)


def _agree(op: Op, graph: Trace, other: Trace, algorithm: tuple[tuple[str, str], ...]) -> None:
    """Compare all outputs of two graphs in mpmath, on random data. Raises FormulaError if they differ."""
    tensors = _tensors(op, graph, np.random.default_rng(0))
    parameters = {node.label: 0.5 for node in graph.locals.values() if node.kind == "parameter"}
    both = [Inputs(each, tensors, parameters) for each in (graph, other)]
    outputs = [(name, node, other.outputs[name]) for name, node in graph.outputs.items()]
    is_large = any(each.size > _MOST_ELEMENTS for each in tensors.values()) or op.work(both[0].extents) > _MOST_TERMS
    if differing := (_differing_nearly if is_large else _differing)(both, outputs):
        words = ", ".join(f"{way!r} of {local}" for local, way in algorithm)
        raise FormulaError(f"{op.name}: with its algorithm {words}, {differing} has another exact value")


Same = Sequence[tuple[str, Node, Node]]
"""The outputs by name, each with its node in two graphs."""


def _differing(both: Sequence[Inputs], outputs: Same) -> str:
    """Return the name of an output that differs between two graphs; "" if none does."""
    with mpmath.workprec(_BITS):
        right, found = (evaluate(each, Precise()) for each in both)
        for name, one, two in outputs:
            pairs = zip(right[one].flat, found[two].flat, strict=True)
            if not all(a == b or (a != a and b != b) or abs(b - a) <= abs(a) * _AGREE for a, b in pairs):
                return name
    return ""


def _differing_nearly(both: Sequence[Inputs], outputs: Same) -> str:
    """Return the name of an output that differs in float64 by more than both graphs' errors; "" if none does."""
    right, found = (evaluate(each, Rigorous()) for each in both)
    for name, one, two in outputs:
        a, b = right[one], found[two]
        allowed = np.asarray(a.error + b.error)
        if not np.isfinite(allowed).all():
            return _differing(both, outputs)
        if not np.all(np.abs(a.value - b.value) <= allowed):
            return name
    return ""


def _tensors(op: Op, graph: Trace, random: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return random values of all tensors, with extents that satisfy the relations between them."""
    free = {dim for dims in graph.tensors.values() for dim in dims} - graph.counts.keys()
    sizes = completed(graph.counts, grown(graph.counts, {dim: op.fixed.get(dim, _SIZE) for dim in free}, op.fixed))
    return {name: _data(op, name, [sizes[dim] for dim in dims], random) for name, dims in graph.tensors.items()}


def _data(op: Op, name: str, shape: Sequence[int], random: np.random.Generator) -> NDArray[Any]:
    """Return random values of a tensor."""
    operand = op.operand(name)
    if operand.dtype == "bool":
        return random.random(shape) < 0.5
    if operand.integers:
        return random.integers(0, op.fixed.get(operand.index, _SIZE), shape)
    return 1.0 + random.random(shape)
