"""Checks that the symmetries which an op states are those of its formula, since a law that does not hold would accuse
correct kernels."""

from __future__ import annotations

from typing import Literal

from fuzz.core.laws.reach import KnowsTheScaleError, leaf, reaches
from oracles.formula.trace import Node, Trace, ordered, trace
from oracles.op import Op
from oracles.operand import OUTER, Flip, OpError

Parity = Literal["even", "odd", "neither", "zero"]
"""How the sign of a value changes if inputs are negated: 'even' values keep it, 'odd' ones change it, and a 'zero' is
both even and odd."""
_EXTENT = 8


def check_symmetries(op: Op) -> None:
    """Raise OpError for a flip or a scaling that the formula does not have."""
    formula = trace(op.formula, {each.name: each.axes for each in op.inputs}, [each.name for each in op.parameters])
    for flip in op.flips:
        _check_flip(op, formula, flip)
    if op.scaling:
        _check_scaling(op, formula)


def _check_flip(op: Op, formula: Trace, flip: Flip) -> None:
    found: dict[Node, Parity] = {}
    for node in formula.nodes:
        found[node] = _parity(node, [found[arg] for arg in node.args], flip)
    for name, node in formula.outputs.items():
        wanted: Parity = "odd" if name in flip.outputs else "even"
        if found[node] not in (wanted, "zero"):
            raise OpError(f"{op.name}: flips: with {', '.join(flip.inputs)} negated {name} is {_WORDS[found[node]]}")
        losing = [each for each in ordered([node]) if found[each] == "odd" and _loses_sign(each)]
        if wanted == "odd" and not flip.zeros and losing:
            what = losing[0].label if losing[0].kind == "function" else "a sum that cancels"
            raise OpError(f"{op.name}: flips: {what} is +0 whatever the sign of its zeros: {name} needs zeros=True")


def _loses_sign(node: Node) -> bool:
    """Whether the sign of a zero result does not follow from the signs of the arguments."""
    if node.kind == "function":
        return not node.function.keeps_zeros and node.function.at(-0.0) == 0.0
    return node.kind in ("add", "subtract", "sum", "dot")


_CHOOSING = {"where": 0, "take": 1}
"""The index of the argument that chooses among the others, by kind of step."""
_WORDS = {"even": "not", "odd": "negated too", "neither": "another number"}


def _parity(node: Node, args: list[Parity], flip: Flip) -> Parity:
    if not args:
        if node.kind == "constant" and node.value == 0:
            return "zero"
        return "odd" if node.kind == "tensor" and node.label in flip.inputs else "even"
    odd, known = args.count("odd"), "neither" not in args
    if node.kind in ("multiply", "divide", "dot"):
        return "zero" if args[0] == "zero" else ("odd" if odd == 1 else "even") if known else "neither"
    if node.kind in ("add", "subtract", *_CHOOSING):
        chooser = _CHOOSING.get(node.kind)
        if chooser is not None and args[chooser] not in ("even", "zero"):
            return "neither"
        kinds = {each for place, each in enumerate(args) if place != chooser and each != "zero"}
        return kinds.pop() if len(kinds) == 1 else "neither" if kinds else "zero"
    if node.kind in ("sum", "negate", "point"):
        return args[0]
    if node.kind == "function" and node.function.parity != "neither":
        return args[0] if node.function.parity == "odd" else "even" if known else "neither"
    return "neither" if odd or not known else "even"


def _check_scaling(op: Op, formula: Trace) -> None:
    powers = {each.name: each.power for each in op.parameters} | dict(op.scaling)
    signed = {
        node: leaf(powers.get(node.label, 0), 0, 1, zero=True, signed=True) for node in formula.nodes if not node.args
    }
    leaves = {node: None if node.kind == "constant" and not node.value else each for node, each in signed.items()}
    try:
        found = reaches(formula, leaves, dict.fromkeys((*op.named, OUTER), _EXTENT))
    except KnowsTheScaleError as error:
        raise OpError(f"{op.name}: scaling: {error}") from error
    for name, node in formula.outputs.items():
        reach = found[node]
        if reach is not None and reach.power != op.scaling.get(name, 0):
            stated = op.scaling.get(name, 0)
            raise OpError(f"{op.name}: scaling: by the formula {name} goes with s^{reach.power}, and not s^{stated}")
