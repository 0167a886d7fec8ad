"""Conclusions from a formula about the values of its inputs. Factors of a recurrence must be near 1, since products of
other numbers soon overflow or vanish. Inputs that are only compared for equality must be integers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from oracles.formula.node import COMPARED
from oracles.formula.trace import Kind, Node, ordered, trace
from oracles.op import Op

_PLAIN: tuple[Kind, ...] = (
    "tensor", "constant", "extent", "position", "add", "subtract", "multiply", "negate", "take",
)  # fmt: skip
GATES, LOG_GATES = "gates", "log_gates"
_MOVED: tuple[Kind, ...] = (*_PLAIN, "function", "divide")
_NUMBERS: tuple[Kind, ...] = ("constant", "extent")
_COUNTED = r"(?:.*_)?(?:ids?|idx|index|indices|(?:seq|kv|ctx)?lens?|lengths?|[qk]?pos|offsets?)"
"""Names of arguments that are integers wherever they occur."""
_INTEGER = rf"{_COUNTED}|(?:.*_)?(?:labels?|targets?|positions?|segments?|segs?|tokens?|experts?)"
"""Names of arguments that are integers, if their use leaves it open."""


def gates_of(op: Op) -> Mapping[str, str]:
    """Return the menu of each input whose elements are factors of a recurrence, or logarithms of such factors."""
    graph, found = trace(op.formula, {each.name: each.axes for each in op.inputs}), dict[str, str]()
    for node in graph.nodes:
        if node.kind != "scan":
            continue
        factor, menu = node.args[0], GATES
        while factor.kind == "take":
            factor = factor.args[0]
        if factor.operation == "exp":
            factor, menu = factor.args[0], LOG_GATES
        within = [*ordered([factor])]
        if all(each.kind in _PLAIN for each in within):
            found |= dict.fromkeys((each.label for each in within if each.kind == "tensor"), menu)
    return found


def compared_of(op: Op) -> Mapping[str, bool]:
    """Return the inputs that are compared, and for each whether it certainly holds integers: it is only compared, with
    places or for equality with other inputs, or has the name of an integer argument and is compared with places, as in
    `arange(n) < lens + 1`, whatever else is made of it."""
    graph, found = trace(op.formula, {each.name: each.axes for each in op.inputs}), dict[str, bool]()
    for own in [node for node in graph.nodes if node.kind == "tensor"]:
        mine = {own, *(use for use in graph.uses[own] if use.kind == "take")}
        uses = [use for node in mine for use in graph.uses[node] if use not in mine]
        pairs = {_told(*use.args) for use in uses if use.kind == "at_most"}
        others = [arg for use in uses for arg in use.args if arg not in mine]
        placed = any(each.kind == "position" for each in ordered(others))
        equal = pairs != {(own, own)} and all(_told(*use.args[::-1]) in pairs for use in uses)
        if uses and all(use.kind in COMPARED for use in uses) and (placed or equal):
            number = bool(others) and all(each.kind in _NUMBERS for each in others)
            found[own.label] = not number or is_integer(own.label)
    for node in graph.nodes:
        within = [*ordered(node.args)] if node.kind in COMPARED else []
        named = {each.label for each in within if each.kind == "tensor" and is_integer(each.label)}
        if (
            all(each.kind in _MOVED for each in within)
            and len(named) + any(each.kind == "position" for each in within) > 1
        ):
            found |= dict.fromkeys(named, True)
    return found


def is_integer(name: str, *, anywhere: bool = False) -> bool:
    """Whether an argument of this name holds integers, if its use leaves it open, or `anywhere`."""
    return re.fullmatch(_COUNTED if anywhere else _INTEGER, name) is not None


def _told(*nodes: Node) -> tuple[object, ...]:
    """Return a key of a compared value. Equal constants have equal keys, wherever they occur."""
    return tuple(each.value if each.kind == "constant" else each for each in nodes)
