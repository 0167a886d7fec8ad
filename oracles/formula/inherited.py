"""Functions that kernels may calculate from others, as the tables of Vulkan and WGSL say: their errors are inherited
from those. `Contract.inherited` names them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from oracles.formula.node import Node, chosen, ordered
from oracles.formula.trace import Trace


def _asin(x: Node) -> Node:
    return (x / _root(x)).apply("atan")


def _acos(x: Node) -> Node:
    """Return the arctangent of y / x with y = sqrt(1 - x^2), turned by a half if x is not positive, as that of two
    arguments is. A quarter turn is 2 atan(1), which has no rounding of its own."""
    quarter = 2.0 * Node("constant", value=1.0).apply("atan")
    return chosen(x > 0.0, (_root(x) / x).apply("atan"), quarter - (x / _root(x)).apply("atan"))


def _root(x: Node) -> Node:
    return (1.0 - x * x).apply("sqrt")


def _pow(node: Node) -> Node:
    exponent = node.args[1] if node.kind == "pair" else Node("constant", value=node.value, low=node.low)
    return (exponent * node.args[0].apply("log2")).apply("exp2")


EXPRESSIONS: Mapping[str, Callable[[Node], Node]] = {
    "acos": _acos,
    "acosh": lambda x: (x + (x * x - 1.0).apply("sqrt")).apply("log"),
    "asin": _asin,
    "asinh": lambda x: (x + (x * x + 1.0).apply("sqrt")).apply("log"),
    "atanh": lambda x: ((1.0 + x) / (1.0 - x)).apply("log") * 0.5,
    "cosh": lambda x: (x.apply("exp") + (-x).apply("exp")) * 0.5,
    "sinh": lambda x: (x.apply("exp") - (-x).apply("exp")) * 0.5,
    "sqrt": lambda x: 1.0 / x.apply("rsqrt"),
    "tan": lambda x: x.apply("sin") / x.apply("cos"),
    "tanh": lambda x: x.apply("sinh") / x.apply("cosh"),
}
"""The expression by which each function may be replaced, beside `pow` with its constant."""


def inherited(graph: Trace, names: Collection[str]) -> Trace:
    """Return the graph with the expression in place of each function in `names`, also inside of other expressions; the
    graph itself if it has no such function."""
    taken = dict[Node, Node]()
    for node in ordered([*graph.outputs.values(), *graph.locals.values()]):
        taken[node] = expression(node.made_of(taken), names)
    return graph.taking(taken)


def expression(node: Node, names: Collection[str]) -> Node:
    """Return the expression in place of a node, if it is one of the functions in `names`; else the node."""
    if node.kind not in ("function", "pair") or node.label not in names:
        return node
    found = _pow(node) if node.label == "pow" else EXPRESSIONS[node.label](*node.args)
    made = {each: each for each in ordered(node.args)}
    for each in ordered([found]):
        if each not in made:
            made[each] = expression(each.made_of(made), names)
    return made[found]


def parts(names: Collection[str]) -> Iterator[Node]:
    """Yield the nodes of the expressions of the functions in `names`."""
    for name in names:
        yield from ordered([expression(Node("tensor", label="x").apply(name, 2.5 if name == "pow" else 0.0), names)])
