"""Forms: other formulas that a kernel may calculate instead of the declared one, and formulas with the same exact value
that lose accuracy in one of their steps; and the difference between two contracts in plain words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import Format, form
from oracles.enclosure import Enclosure, Mask, compare
from oracles.formula.contract import INPUT, MAYBE, WIDE, Contract, within
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, Replaced, evaluate
from oracles.formula.node import CONTRACTIONS, Node, ordered
from oracles.formula.trace import Trace, elementary, extent, prod, total
from oracles.op import Op
from oracles.operand import OpError
from oracles.rounding import round_to
from oracles.summation import AnyOrder, Blocks, Lanes, Pairwise, Sequential, Summation, Tiles, VectorLanes
from oracles.tiers.prepared import prepared
from oracles.tiers.problem import FormulaProblem

_CANCELS = 2.0
"""The factor by which a difference must be smaller than its operands to count as cancelling."""


@dataclass(frozen=True)
class FormulaVariant:
    """A replacement for some values in a formula."""

    operation: str
    """The operation that makes the values, as in `Node.operation`."""
    made: Callable[[Node], Node | None]
    """A function that returns the replacement of a node; None if it stays."""
    words: str = ""
    """The changed formula in words; '' if its exact value is the same."""


_exp, _log, _tanh = elementary("exp"), elementary("log"), elementary("tanh")


def _tanh_of(node: Node) -> Node:
    x = node.args[0] * math.sqrt(2.0)
    return _tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x)))


def _to_zero(node: Node) -> Node:
    return elementary("sign")(node.args[0]) * elementary("floor")(abs(node.args[0]))


def _by_one_less(node: Node) -> Node | None:
    """Return a division by one less than an extent; None for other divisors, such as an index."""
    x, n = node.args
    return x / (n - 1.0) if n.operation == "extent" else None


OTHERS = (
    FormulaVariant("erf", _tanh_of, "the tanh form of gelu"),
    FormulaVariant("erf", lambda node: _tanh(0.851 * math.sqrt(2.0) * node.args[0]), "the sigmoid form of gelu"),
    FormulaVariant("divide", _by_one_less, "the formula with n - 1 in place of n"),
    FormulaVariant("floor", _to_zero, "a rounding to zero in place of one down"),
)


def _quotient(node: Node) -> Node:
    e = _exp(node.args[0])
    return e / (e + 1.0)


def _of_sigmoid(node: Node) -> Node:
    (x,) = node.args
    return -_log(elementary("sigmoid")(x.args[0] if x.kind == "negate" else -x))


def _half_angle(node: Node) -> Node:
    e = _exp(2.0 * node.args[0])
    return (e - 1.0) / (e + 1.0)


def _of_squares(node: Node) -> Node | None:
    """Return a sum of squared differences as sums of squares minus the products."""
    (terms,) = node.args
    if terms.kind != "multiply" or terms.args[0] is not terms.args[1] or terms.args[0].kind != "subtract":
        return None
    (a, b), dim = terms.args[0].args, node.over
    if set(dim) <= b.dims:
        return total(a * a, dim) + total(b * b, dim) - 2.0 * total(a * b, dim)
    return total(a * a, dim) - b * (b.args[0] if b.kind == "divide" else extent(dim) * b)


def _of_two_squares(node: Node) -> Node | None:
    by = {each.kind: each.args for each in node.args}
    if by.keys() != {"add", "subtract"} or {*map(id, by["add"])} != {*map(id, by["subtract"])}:
        return None
    a, b = by["subtract"]
    return a * a - b * b


def _of_quotient(node: Node) -> Node | None:
    shifted, mass = node.args
    return _log(_exp(shifted) / mass.args[0]) if mass.operation == "log" else None


def _of_product(node: Node) -> Node | None:
    """Return a sum of logarithms as the logarithm of a product."""
    (terms,) = node.args
    return _log(prod(terms.args[0], node.label)) if terms.operation == "log" and len(node.over) == 1 else None


def _of_share(node: Node) -> Node | None:
    """Return a value times its sigmoid, with the product by the exponential taken first."""
    x, share = node.args
    e = _exp(x)
    return x * e / (e + 1.0) if share.operation == "sigmoid" and share.args[0] is x else None


def _of_two_exponentials(node: Node) -> Node | None:
    most, less = node.args
    if most.kind != "where" or less.operation != "log1p" or most.args[0].kind != "less":
        return None
    a, b = most.args[0].args
    return _log(_exp(a) + _exp(b))


SAME = (
    FormulaVariant("max", lambda node: Node("constant", value=0.0)),
    FormulaVariant("log1p", lambda node: _log(1.0 + node.args[0])),
    FormulaVariant("expm1", lambda node: _exp(node.args[0]) - 1.0),
    FormulaVariant("sigmoid", _quotient),
    FormulaVariant("tanh", _half_angle),
    FormulaVariant("softplus", lambda node: elementary("log1p")(_exp(node.args[0]))),
    FormulaVariant("softplus", lambda node: _log(1.0 + _exp(node.args[0]))),
    FormulaVariant("softplus", _of_sigmoid),
    FormulaVariant("sum", _of_squares),
    FormulaVariant("multiply", _of_two_squares),
    FormulaVariant("multiply", _of_share),
    FormulaVariant("subtract", _of_quotient),
    FormulaVariant("sum", _of_product),
    FormulaVariant("add", _of_two_exponentials),
)
"""Replacements that keep the exact value of the formula, but lose accuracy for some inputs."""


def rewritten(op: Op, way: FormulaVariant) -> Iterator[Op]:
    """Yield the op with all matching values replaced, and then with each of them replaced alone. Leave out what is no
    op: without the maxima of windows nothing says how many windows there are."""
    places = sum(node.operation == way.operation and way.made(node) is not None for node in read(op).nodes)
    for chosen in [range(places), *(([at] for at in range(places)) if places > 1 else ())] if places else ():

        @wraps(op.formula)
        def formula(chosen: Sequence[int] = chosen, **given: Node) -> Mapping[str, Node]:
            return _replaced(op.formula(**given), way, chosen)

        with suppress(OpError):
            yield replace(op, formula=formula, algorithms={}, open_ways={})


def _replaced(outputs: Mapping[str, Node], way: FormulaVariant, chosen: Sequence[int]) -> Mapping[str, Node]:
    """Return the outputs with the chosen values replaced; values are numbered in the order of calculation."""
    made, seen = dict[Node, Node](), 0
    for node in ordered(outputs.values()):
        made[node] = node.made_of(made)
        if node.operation == way.operation and (other := way.made(made[node])) is not None:
            made[node] = other if seen in chosen else made[node]
            seen += 1
        if made[node].kind in ("add", "subtract") and _is_zero(made[node].args[1]):
            made[node] = made[node].args[0]
    return {name: made[node] for name, node in outputs.items()}


def _is_zero(node: Node) -> bool:
    return node.kind == "constant" and not node.value


def read(op: Op) -> Trace:
    """Return the formula of an op with all of its operands."""
    present = frozenset((*(each.name for each in op.operands), *(each.name for each in op.parameters)))
    return prepared(op, present, frozenset(), ()).trace


def lost_step(
    truth: FormulaProblem,
    within: Mapping[str, Enclosure],
    wrong: Mapping[str, Mask],
    got: Mapping[str, F64],
    dtype: str,
) -> str:
    """Return the step of a formula, in words, that explains most of the wrong elements when it alone is rounded to a
    dtype, including those that become zero or NaN; '' if no step does."""
    (trace, inputs), kept = _plain(truth), form(dtype)
    found, most, told = evaluate(inputs, Float64()), 0, ""
    for node in trace.nodes:
        changed: Replaced = {}
        if cancels := _cancels(node, found):
            # Only one operand is changed, as both may be rounded alike, and only here, as other steps may use the same
            # value.
            at, term = next(((at, each) for at, each in enumerate(node.args) if each.args), (0, node.args[0]))
            changed = {(node, at): round_to(found[term] * (1 + 2 * kept.u), kept)} if term.args else {}
        elif node.args and node not in trace.outputs.values():
            changed = {(node, None): round_to(found[node], kept)}
        words = _loss(trace, node, found, kept) if changed else ""
        if not words:
            continue
        values, off = _outputs(truth, inputs, found, changed), 0
        for name, each in within.items():
            made = round_to(values[name], each.form)
            alike = np.isfinite(made) & (made != 0) | np.equal(made, got[name]) | (np.isnan(made) & np.isnan(got[name]))
            alike |= np.isfinite(got[name]) & cancels
            off += int((compare(each, made).failing & wrong[name] & alike).sum())
        most, told = (off, words) if off > most else (most, told)
    return told


def roundings(truth: FormulaProblem, dtype: str) -> Iterator[tuple[str, Callable[[], Mapping[str, F64]]]]:
    """Yield each step of a formula in words, with a function that returns the outputs if this step alone, or it and its
    operands, are rounded to a dtype."""
    trace, inputs = _plain(truth)
    found = evaluate(inputs, Float64())
    for node in trace.nodes:
        for some in ((node,), (node, *(each for each in node.args if each.kind != "constant"))):

            def values(some: Sequence[Node] = some) -> Mapping[str, F64]:
                return _outputs(
                    truth, inputs, found, {(each, None): round_to(found[each], form(dtype)) for each in some}
                )

            if node.args and not node.is_exact and node not in trace.outputs.values():
                yield spelled(trace, node), values


def _plain(truth: FormulaProblem) -> tuple[Trace, Inputs]:
    """Return the formula of a case, in which only operands have names, and its inputs."""
    own = truth.plain.trace
    operands = {name: node for name, node in own.locals.items() if not node.args}  # a reader knows no others
    trace = Trace(own.dims, own.tensors, own.outputs, operands, own.counts)
    return trace, Inputs(trace, truth.tensors, truth.parameters)


def _outputs(truth: FormulaProblem, inputs: Inputs, found: Mapping[Node, F64], changed: Replaced) -> Mapping[str, F64]:
    """Return the outputs, not rounded to their dtypes, with some steps replaced."""
    values, made = evaluate(inputs, Float64(), changed), dict[str, F64]()
    for name, of in inputs.trace.outputs.items():
        shape = np.broadcast_shapes(values[of].shape, found[of].shape)
        made[name] = truth.arranged(name, truth.returned(name, np.broadcast_to(values[of], shape)))
    return made


def _loss(trace: Trace, node: Node, found: Mapping[Node, F64], kept: Format) -> str:
    """Return the loss in words if a step is rounded; '' if no known loss applies."""
    size, spelt = np.abs(found[node]), spelled(trace, node)
    if (size > kept.max).any():
        return f"{spelt} overflows"
    if ((size < kept.tiny) & (size > 0)).any():
        return f"{spelt} underflows"
    if _cancels(node, found):
        return f"{spelt} cancels"
    if node.kind in ("add", "subtract"):
        less, more = sorted(node.args, key=lambda each: float(np.abs(found[each]).min()))
        lost = trace.names.get(less) or (spelled(trace, less) if less.args else "")
        # If both terms vary, either may be the smaller one, in another element or case.
        lost = "the smaller term" if lost and (more.args or more in trace.names) else lost
        if lost and (np.abs(found[less]) < np.abs(found[more]) / _CANCELS).any():
            return f"{spelt} absorbs digits of {lost}"
    is_near = (size < _CANCELS).any() and (size > 1 / _CANCELS).any()
    if is_near and any(each.operation == "log" and each.args[0] is node for each in trace.nodes):
        return f"{spelt} is rounded near 1"
    return ""


def _cancels(node: Node, found: Mapping[Node, F64]) -> bool:
    """Return whether a difference is much smaller than its operands in some element."""
    of = (np.abs(found[each]) > _CANCELS * np.abs(found[node]) for each in node.args)
    return node.kind in ("add", "subtract") and any(each.any() for each in of)


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
    return prepared(op, present, frozenset(), tuple(contract.algorithms[0].items())).trace


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
    called = node.label if node.kind in ("function", "pair") else _CALLED.get(node.kind, node.kind)
    if node.kind == "scan" and node.args[1].kind == "constant":
        called = "product of "
    return f"{called}{inside if called.endswith(' ') else f'({inside})'}"


def _is_mean(node: Node) -> bool:
    return node.kind == "divide" and node.args[1].kind == "extent" and node.args[0].kind == "sum"
