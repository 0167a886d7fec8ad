"""Planning: a plan filled with what is known of each node of its formula, one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from oracles.dtypes import DOUBLE, FORMATS, Format
from oracles.formula.exact.counts import counted
from oracles.formula.node import SELECTS
from oracles.formula.trace import Kind, Node
from oracles.operand import OUTER
from oracles.tiers.plan import Plan, Value

_FAMILY: tuple[Kind, ...] = ("multiply", "divide", "add", "sum", "point")
"""Where errors are in proportion to values, as they are of powers."""


class _Apart(Exception):  # noqa: N818 (no error)
    """Which number of a dtype kernels have depends on their errors."""


def planned(plan: Plan) -> Plan | None:
    """The plan with all that it is made of; None where a rounding on the way depends on errors before it."""
    trace = plan.trace
    if any(node.kind in SELECTS for node in trace.nodes):
        return None
    if plan.contract.wider or (plan.contract.addend == "any" and trace.chains):
        return None
    if counted(trace, {name for name, dtype in plan.tensors.items() if dtype not in FORMATS}):
        return None
    if trace.joined or len(trace.dims) != 2 or OUTER not in trace.dims or plan.is_wide:
        plan.apart.append(None)
    try:
        for node in plan.nodes:
            plan.values[node] = _known(plan, node)
            if node.kind == "sum":
                plan.sums[node] = plan.dtype(node)
    except _Apart:
        return None
    return plan


def _known(plan: Plan, node: Node) -> Value:
    kind, dtype = node.kind, plan.dtype(node)
    if kind in ("constant", "parameter", "extent"):
        power = kind == "constant" and abs(math.frexp(node.value)[0]) in (0.0, 0.5)
        if node.low:
            raise _Apart
        return Value(DOUBLE, 1 if power else DOUBLE.precision, True, node.value >= 0)
    if kind in ("tensor", "position"):
        stored = FORMATS.get(plan.tensors.get(node.label, ""))
        dtype = stored or DOUBLE
        if OUTER not in node.dims or stored is None:
            plan.apart.append(node)
        return Value(dtype, dtype.precision, True, False)
    if kind == "point":
        return _pointed(plan, node)
    if kind not in _FAMILY and not (kind == "function" and node.function.power):
        plan.apart.append(node)
    if node.is_exact:
        args = [plan.values[arg] for arg in node.args]
        dtype = max((each.dtype for each in args), key=lambda each: each.precision)
        return Value(dtype, max(each.bits for each in args), False, False)
    args = [_taken(plan, node, place, dtype) for place in range(len(node.args))]
    exact = all(each.exact for each in args)
    positive = all(each.positive for each in args)
    if kind == "multiply":
        if any(arg.kind in ("parameter", "extent") for arg in node.args):
            plan.apart.append(node)  # its bits depend on its value
        bits = [each.bits for each in args]
        both = sum(bits) if min(bits) > 1 else max(bits)
        positive |= node.args[0] is node.args[1]
        return Value(dtype, min(both, dtype.precision), exact and both <= dtype.precision, positive)
    if kind in ("add", "subtract"):
        return _added(plan, node, args, positive)
    of_elements = bool(node.args) and len(node.args[0].dims) == len(plan.trace.dims)
    if (kind == "sum" and (OUTER in node.over or not of_elements)) or (kind != "divide" and not positive):
        plan.apart.append(node)
    return Value(dtype, dtype.precision, False, positive)


def _added(plan: Plan, node: Node, args: Sequence[Value], positive: bool) -> Value:
    """Two operands are rounded alike by every kernel; of sums that kernels round in their own ways none may cancel."""
    dtype = plan.dtype(node)
    if plan.contract.addend != "last" and not plan.trace.started.isdisjoint(node.args):
        plan.apart.append(node)  # errors of what is added are in proportion to that
    if any(arg.args for arg in node.args) or not (args[0].exact and args[1].exact):
        if len(node.dims) == len(plan.trace.dims) or not positive:
            plan.apart.append(node)
        return Value(dtype, dtype.precision, False, positive)
    for zero, place in ((0, 1), (1, 0)):
        arg = node.args[zero]
        nothing = arg.label in plan.zeros if arg.kind == "parameter" else arg.kind == "constant" and not arg.value
        if nothing and not plan.contract.flushes_results and (zero == 1 or node.kind == "add"):
            plan.same[node] = node.args[place]
            return args[place]
    if dtype is DOUBLE:
        return Value(dtype, dtype.precision, False, positive)
    plan.rounded[node, None] = dtype
    return Value(dtype, dtype.precision, True, positive)


def _pointed(plan: Plan, node: Node) -> Value:
    (arg,) = node.args
    value, point = plan.values[arg], plan.pointed(node)
    if point is None or ((value.exact or not point.always) and _holds(value, point.dtype)):
        return value
    dtype = point.dtype
    if not point.always:
        plan.apart.append(node)
        return Value(value.dtype, value.bits, False, value.positive)
    if not value.exact and _holds(value, dtype):
        if plan.dtype(arg) is dtype:
            raise _Apart  # numbers so near to each other that errors decide which
        return value
    if dtype is DOUBLE:
        raise _Apart
    plan.rounded[node, None] = dtype
    return Value(dtype, min(value.bits, dtype.precision), True, value.positive)


def _taken(plan: Plan, node: Node, place: int, dtype: Format) -> Value:
    """An argument as the node takes it."""
    arg = node.args[place]
    value = plan.values[arg]
    if _holds(value, dtype):
        return value
    if not value.exact:
        raise _Apart
    if arg.dims:
        plan.apart.append(node)
    plan.rounded[node, place] = dtype
    return Value(dtype, min(value.bits, dtype.precision), True, value.positive)


def _holds(value: Value, dtype: Format) -> bool:
    return value.bits <= dtype.precision and value.dtype.emin >= dtype.emin and value.dtype.max <= dtype.max
