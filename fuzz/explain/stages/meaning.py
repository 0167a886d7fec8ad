"""Meaning: the difference between two contracts in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from oracles.formula.contract import INPUT, MAYBE, WIDE, Contract, within
from oracles.formula.node import CONTRACTIONS
from oracles.formula.trace import Node, Trace
from oracles.op import Op
from oracles.summation import AnyOrder, Blocks, Lanes, Pairwise, Sequential, Summation, Tiles, VectorLanes
from oracles.tiers.reading import reading

_DEPTH = 3
"""The depth to which the expression for a value is spelled out. Chosen, not measured."""
_WORDS: Mapping[tuple[str, Any], str] = {
    ("mean", "divide"): "means that are sums divided by their number of terms",
    ("mean", "reciprocal"): "means that are sums times the reciprocal of their number of terms",
    ("addend", "last"): "what is added to a sum added after its terms",
    ("addend", "either"): "sums that may start as what is added to them",
    ("addend", "any"): "terms that are added one by one in any order",
    ("fused", True): "products that may be added without being rounded",
    ("fused", False): "each product rounded before it is added",
    ("expanded", True): "products of sums that may be multiplied out",
    ("expanded", "lerp"): "steps between two values by a share that is rounded first, as torch.lerp makes them",
    ("expanded", False): "products of sums calculated as they are written",
    ("ties", "either"): "any of several equal elements chosen",
    ("ties", "formula"): "of several equal elements the one that the formula says",
    ("saturate", True): "the largest number in place of what overflows the output",
    ("saturate", False): "infinity in place of what overflows the output",
    ("zeros", "any"): "zeros of either sign",
    ("zeros", "ieee"): "zeros of the sign that IEEE arithmetic gives them",
    ("denormals", "preserve"): "subnormal numbers kept",
    ("denormals", "flush"): "subnormal numbers that may be 0",
    ("denormals", "flush operands"): "subnormal numbers that may be 0 where an operation takes them",
    ("denormals", "flush results"): "subnormal numbers that may be 0 where an operation returns them",
    ("denormals", "flush bf16"): "subnormal numbers that may be 0 beside bf16",
    ("nonfinite", "ieee"): "infinities and NaN as IEEE arithmetic has them",
    ("nonfinite", "overflow"): "anything where numbers overflow on the way",
    ("nonfinite", "unspecified"): "anything where a number is infinite or NaN",
}
"""The words for fields with a closed list of values."""


def meaning(op: Op, contract: Contract, declared: Contract, changed: tuple[str, ...]) -> str:
    """Return in words what a contract says in the changed fields."""
    return " and ".join(each for name in changed for each in _of_field(op, contract, declared, name))


def _of_field(op: Op, contract: Contract, declared: Contract, name: str) -> Iterator[str]:
    now, before = getattr(contract, name), getattr(declared, name)
    if name == "compute":
        yield f"all calculated in {_dtype(now)}"
    elif name in _SAYING:
        graph, alike = _graph(op, contract), dict[str, list[str]]()
        for key in dict.fromkeys((*now, *before)):
            if now.get(key) != before.get(key):
                what, how = _SAYING[name](graph, key, now.get(key))
                alike.setdefault(how, []).append(what)
        yield from (f"{' and '.join(each)} {how}".strip() for how, each in alike.items())
    else:
        yield _WORDS[name, now]


def _graph(op: Op, contract: Contract) -> Trace:
    """Return the formula with all operands, in the algorithms of the contract."""
    present = frozenset((*(each.name for each in op.operands), *(each.name for each in op.parameters)))
    return reading(op, present, frozenset(), tuple(contract.algorithms[0].items())).trace


def _rounded(graph: Trace, name: str, dtype: str | None) -> tuple[str, str]:
    if dtype is None:
        return _named(graph, name), "not rounded on its way"
    maybe = ", or not" * dtype.startswith(MAYBE)
    return _named(graph, name), f"rounded to {_dtype(dtype.removeprefix(MAYBE))}{maybe}"


def _calculated(graph: Trace, name: str, dtype: str | None) -> tuple[str, str]:
    return _named(graph, name), f"calculated in {'the dtype of all else' if dtype is None else _dtype(dtype)}"


def _made(graph: Trace, name: str, _: object) -> tuple[str, str]:
    return _named(graph, name), ""


def _accurate(_: Trace, name: str, bound: Any) -> tuple[str, str]:
    return name, "as accurate as usual" if bound is None else f"off by up to {within(bound).ulp:g} ulp"


def _ordered(_: Trace, name: str, order: Summation | None) -> tuple[str, str]:
    return f"sums over {' and '.join(name.split())}", _order(order)


def _order(order: Summation | None) -> str:
    match order:
        case Lanes():
            return f"in {order.lanes * order.accumulators} lanes"
        case VectorLanes():
            return f"in the lanes of {order.accumulators} vectors"
        case Tiles():
            return f"in {order.width} columns"
        case Pairwise():
            return "in pairs" if order.block == 1 else f"in pairs of blocks of {order.block}"
        case Blocks():
            return f"in blocks of {order.block}"
        case AnyOrder():
            return "in any order"
        case Sequential() | None:
            return "one term after the other"
        case _:
            return "in an order that was measured"


def _dtype(name: str) -> str:
    return {INPUT: "the dtype of the inputs", WIDE: "f32 at least"}.get(name, name)


_SAYING: Mapping[str, Callable[[Trace, str, Any], tuple[str, str]]] = {
    "points": _rounded, "dtypes": _calculated, "algorithm": _made, "accuracy": _accurate, "sums": _ordered,
}  # fmt: skip
"""For fields with several names: a function that returns the subject of a name, and what the contract says about it."""


def _named(graph: Trace, name: str) -> str:
    """Return a local variable with its expression, such as 'h = x * rstd', or an operand by its name."""
    node = graph.locals.get(name)
    return name if node is None or not node.args else f"{name} = {spelled(graph, node)}"


_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "at_most": "<="}
_CALLED = {
    "max": "maximum", "take": "elements of ", "scan": "recurrence of ", "welford_mean": "running mean of ",
    "welford_squares": "running sum of squares of ", "online": "running sum of ",
}  # fmt: skip
"""The words that come before an operation's operands."""


def spelled(graph: Trace, node: Node, depth: int = _DEPTH) -> str:
    """Return the expression for a value, in terms of named values."""

    def of(arg: Node, *, alone: bool = False) -> str:
        if name := graph.names.get(arg, ""):
            return name
        if arg.kind == "constant":
            return f"{arg.value:g}"
        if arg.kind in ("extent", "position"):
            return f"the {'number of places' if arg.kind == 'extent' else 'place'} along {' and '.join(arg.over)}"
        if not depth or not arg.args:
            return arg.label or "..."
        found = spelled(graph, arg, depth - 1)
        return found if alone or arg.kind not in (*_SIGNS, "where") or _is_mean(arg) else f"({found})"

    args = [of(arg) for arg in node.args]
    inside = of(node.args[0], alone=True)
    if _is_mean(node):
        return f"mean({of(node.args[0].args[0], alone=True)})"
    if node.kind in _SIGNS:
        return f" {_SIGNS[node.kind]} ".join(args)
    if node.kind == "where":
        return f"{args[1]} where {inside}, else {args[2]}"
    if node.kind in CONTRACTIONS:
        return f"{'running sum of ' * (node.kind == 'online_dot') or 'sum'}({args[0]} * {args[1]})"
    if node.kind == "point":
        return args[0]
    if node.kind == "negate":
        return f"-{args[0]}"
    called = node.label if node.kind == "function" else _CALLED.get(node.kind, node.kind)
    if node.kind == "scan" and node.args[1].kind == "constant":
        called = "product of "
    return f"{called}{inside if called.endswith(' ') else f'({inside})'}"


def _is_mean(node: Node) -> bool:
    return node.kind == "divide" and node.args[1].kind == "extent" and node.args[0].kind == "sum"
