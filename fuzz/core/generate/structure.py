"""Whether the rounding errors of a case's sums are random, so that a budget below the worst case is sound."""

from __future__ import annotations

from collections.abc import Iterable

from fuzz.core.base.case import Layout
from fuzz.core.base.draw import GIVEN, Draw
from fuzz.core.generate.given import RANDOM
from fuzz.core.generate.values import Laid
from oracles.dim import graphs_of
from oracles.formula.node import REDUCTIONS, Node, ordered
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS, remembered

_PRODUCTS = ("multiply", "divide", "dot")
Names = frozenset[str]


def is_structured(drawn: Laid) -> bool:
    """Return whether only the worst-case budget is sound; True if in doubt. Tensors of different dtypes that are added
    in the terms of a sum count too: where one of them is zero, the terms are as coarse as the other. Tensors that are
    multiplied do not count: where one is zero, so is the product."""
    draw, op, layouts = drawn.draw, drawn.op, drawn.layouts
    first = draw.part(op.main)
    if draw.structured is not None:
        if first.recipe in RANDOM:  # equal rows round alike
            return any(part.alias is not None for part in draw.parts if part.given)
        # rows longer than the given ones repeat them
        return draw.structured or first.recipe != GIVEN or (first.given is not None and draw.n > first.given.n)
    if drawn.kept:
        return True
    grids = {part.name: part for part in draw.parts if part.recipe and op.has_rows(part.name)}
    if any(_is_flat(draw, name, layouts[name]) for name in grids):
        return True
    if any(len({grids[name].dtype for name in names & grids.keys()}) > 1 for names in added(op)):
        return True
    # Rows that are drawn anew may be multiplied by given codes, which may not be random.
    if any(part.given is not None for part in grids.values()):
        return True
    if sums_rows(op) and any(drawn.recipe(part).by_row for part in grids.values()):
        return True
    return any(drawn.recipe(part).structured or name in powers(op) for name, part in grids.items())


def _is_flat(draw: Draw, name: str, layout: Layout) -> bool:
    """Whether all elements are equal along a named dimension along which values meet."""
    op = OPS[draw.op]
    if 0 not in layout.strides:
        return False
    dims = op.dims(name, len(layout.strides), draw.axis).split()
    flat = (dim for dim, stride in zip(dims, layout.strides, strict=True) if not stride and dim != OUTER)
    return any(op.dimensions[dim].meets for dim in flat)


@remembered(64)
def added(op: Op) -> frozenset[Names]:
    """Return the groups of inputs that meet in the terms of a sum: added, or chosen from by a condition."""
    sums = [node for graph in graphs_of(op.formula, op.inputs, op.parameters) for node in graph.nodes]
    terms = ordered(arg for node in sums if node.kind in (*REDUCTIONS, "scan") for arg in node.args)
    meeting = [_inputs(each.args) for each in terms if each.kind in ("add", "subtract", "where")]
    meeting += [_inputs(each.args) for each in sums if each.kind == "scan"]
    return frozenset(names for names in meeting if len(names) > 1)


@remembered(64)
def sums_rows(op: Op) -> bool:
    """Whether some sum goes over several dimensions, and so over several rows."""
    graphs = graphs_of(op.formula, op.inputs, op.parameters)
    return any(len(node.over) > 1 for graph in graphs for node in graph.nodes if node.kind == "sum")


@remembered(64)
def powers(op: Op) -> Names:
    """Return the integer inputs that are multiplied by themselves or are the argument of a function. Uniform codes
    times numbers of either sign round up and down equally often, however few bits the numbers have, since the term with
    the opposite sign is equally likely. Squares of codes have one sign, and their last bits are 0 more often than 1,
    see `oracles.budget.sum_budget`."""
    codes = {each.name for each in op.inputs if each.is_code}
    found = set[str]()
    for graph in graphs_of(op.formula, op.inputs, op.parameters):
        for node in graph.nodes:
            if node.kind in _PRODUCTS:
                found |= codes & _inputs(node.args[:1]) & _inputs(node.args[1:])
            elif node.kind in ("function", "pair"):
                found |= codes & _inputs(node.args)
    return frozenset(found)


def _inputs(nodes: Iterable[Node]) -> Names:
    return frozenset(each.label for each in ordered(nodes) if each.kind == "tensor")
