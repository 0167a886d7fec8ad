"""The graph of an op's formula, for the operands of a case and the algorithms that a kernel declares.

An algorithm is another way to calculate the exact value of one local of the formula, and is used in its place. It is a
function whose arguments are locals, tensors and parameters of the formula, by their names.
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
from oracles.formula.exact.rigorous import Rigorous, UncertainError
from oracles.formula.made import completed, grown
from oracles.formula.trace import FormulaError, Node, Trace, ordered, run, trace
from oracles.op import Op

FORMULA, BY_NORM = "formula", "by norm"
"""The names of a formula's own way to calculate a local, where algorithms are named; and of the one by which a part of
a complex number may be off in proportion to the whole number."""
_BITS = 400
_AGREE = mpmath.ldexp(1, -200)
"""The relative difference, calculated with `_BITS` bits, up to which two algorithms have the same exact value."""
_ROUGHLY = 1e-9
"""The difference up to which algorithms agree where bounds leave a branch open, relative to an output's largest value:
far above the rounding errors of float64, far below an error of a formula."""
_SIZE = 3
_MOST_TERMS = 1 << 14
"""The most terms that a step of the formula may have if algorithms are to be compared in mpmath. A step may have more
terms than any tensor has elements, as windows of windows do."""
_MOST_ELEMENTS = 1 << 11
"""The most elements that a tensor may have if algorithms are to be compared in mpmath, which takes seconds for ten
thousand. For more, which fixed extents can require, they are compared in float64 with bounds of its errors."""


def traced(
    op: Op,
    present: Collection[str],
    algorithm: Mapping[str, str] | None = None,
    stacked: Collection[str] = (),
    *,
    beside: bool = False,
) -> Trace:
    """Return the graph of an op's formula for the operands and parameters that a case has, with these algorithms.

    `algorithm` maps locals to names. Absent inputs and parameters are not passed to the formula, whose own defaults
    apply; absent outputs are not calculated. `stacked` operands get the dimensions of the first input. With `beside`,
    problems are stacked, and all tensors have the dimension `BESIDE` too. An algorithm for a local that the formula
    does not calculate from these operands changes nothing. Raises FormulaError for an algorithm that the op does not
    have, and for one with another exact value than the local.
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
            from oracles.formula.expansion import arranged

            graph = arranged(graph, way)
        _agree(op, plain, graph, algorithm)
        return graph
    whole = present | {each.name for each in op.outputs}
    if whole != present:
        graph = _traced(op, whole, (), stacked, beside)  # graphs of fewer outputs share its nodes
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
    """Whether an optional operand is added to something, so that a case without it is the same as a case with zeros."""
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
    """Return the graph with `node` in place of a local wherever the local is used. `own` are further nodes by name, on
    which `node` depends. Raises FormulaError if the node depends on the local itself."""
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
    """Return the name of an output whose exact values differ between two graphs, in mpmath; "" for none."""
    with mpmath.workprec(_BITS):
        right, found = (evaluate(each, Precise()) for each in both)
        for name, one, two in outputs:
            pairs = zip(right[one].flat, found[two].flat, strict=True)
            if not all(a == b or (a != a and b != b) or abs(b - a) <= abs(a) * _AGREE for a, b in pairs):
                return name
    return ""


def _differing_nearly(both: Sequence[Inputs], outputs: Same) -> str:
    """Return the name of an output that differs in float64 by more than both error bounds; "" for no output. If the
    bounds leave a branch open, as for a relu of a difference that is 0, compare without them."""
    try:
        right, found = (evaluate(each, Rigorous()) for each in both)
    except UncertainError:
        return _differing_roughly(both, outputs)
    for name, one, two in outputs:
        a, b = right[one], found[two]
        allowed = np.asarray(a.error + b.error)
        if not np.isfinite(allowed).all():
            return _differing(both, outputs)
        if not np.all(np.abs(a.value - b.value) <= allowed):
            return name
    return ""


def _differing_roughly(both: Sequence[Inputs], outputs: Same) -> str:
    """Return the name of an output that differs in float64 by more than `_ROUGHLY`; "" for no output."""
    right, found = (evaluate(each, Float64()) for each in both)
    for name, one, two in outputs:
        size = np.abs(right[one])
        away = np.abs(right[one] - found[two])
        if not np.all((away <= _ROUGHLY * size.max(initial=0.0)) | ~np.isfinite(size)):
            return name
    return ""


def _tensors(op: Op, graph: Trace, random: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return random values of all tensors. Their extents satisfy the fixed extents and counts of the formula."""
    free = {dim for dims in graph.tensors.values() for dim in dims} - graph.counts.keys()
    sizes = completed(graph.counts, grown(graph.counts, {dim: op.fixed.get(dim, _SIZE) for dim in free}, op.fixed))
    return {name: _data(op, name, [sizes[dim] for dim in dims], random) for name, dims in graph.tensors.items()}


def _data(op: Op, name: str, shape: Sequence[int], random: np.random.Generator) -> NDArray[Any]:
    """Return random values of a tensor: flags, places along its dimension, or numbers from 1 to 2."""
    operand = op.operand(name)
    if operand.dtype == "bool":
        return random.random(shape) < 0.5
    if operand.integers:
        return random.integers(0, op.fixed.get(operand.index, _SIZE), shape)
    return 1.0 + random.random(shape)
