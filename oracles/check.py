"""Checks of an op's formula, made before any case is read, so that a mistake is reported in one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oracles.algorithm import traced
from oracles.elementary.functions import function
from oracles.formula.exact.counts import whole as whole_numbers
from oracles.formula.trace import FormulaError, Trace, trace
from oracles.op import Op
from oracles.operand import OpError


def check(op: Op) -> None:
    """Raise OpError if the formula does not fit the op's declaration."""
    required = [each.name for each in op.inputs if not each.optional]
    whole = _read(op, [each.name for each in op.inputs])
    _read(op, required)
    known = [each.name for each in op.outputs]
    for name in known:
        if name not in whole.outputs:
            raise OpError(f"{op.name}: its formula returns {', '.join(whole.outputs) or 'nothing'}, and no {name!r}")
    for name, node in whole.outputs.items():
        if name not in known:
            raise OpError(f"{op.name}: its formula returns {name!r}, which is none of its outputs {', '.join(known)}")
        wider = sorted(node.dims - {*op.operand(name).axes})
        if wider:
            raise OpError(f"{op.name}: {name} has the dimensions {op.operand(name).dims!r}, and by the formula also "
                          f"{', '.join(map(repr, wider))}")  # fmt: skip
    _check_integers(op, whole)
    _check_names(op)
    for local, ways in op.algorithms.items():
        for name in ways:
            _check_algorithm(op, local, name)


def _check_integers(op: Op, graph: Trace) -> None:
    """Raise OpError for an integer output whose value may be a fraction: kernels may round or truncate it."""
    known = whole_numbers(graph, op.integers)
    for each in op.outputs:
        if each.integers and graph.outputs[each.name] not in known:
            raise OpError(f"{op.name}: {each.name} is of {each.dtype}, and by the formula no whole number: write "
                          "f.floor or f.round of it")  # fmt: skip


def _check_algorithm(op: Op, local: str, name: str) -> None:
    """Raise OpError if an algorithm fails with all inputs, or with the required ones: a local may be optional."""
    others = [*(each.name for each in op.outputs), *(each.name for each in op.parameters)]
    for inputs in ([each.name for each in op.inputs], [each.name for each in op.inputs if not each.optional]):
        try:
            traced(op, [*inputs, *others], {local: name})
        except FormulaError as error:
            raise OpError(f"{op.name}: {str(error).removeprefix(f'{op.name}: ')}") from error
        except Exception as error:
            raise OpError(f"{op.name}: algorithm {name!r} of {local}: {type(error).__name__}: {error}") from error


def _read(op: Op, inputs: list[str]) -> Trace:
    """Return the graph for these inputs, with all parameters if all inputs are given, else with the required ones."""
    numbers = [each.name for each in op.parameters if len(inputs) == len(op.inputs) or each.neutral is None]
    dims = {name: op.operand(name).axes for name in inputs}
    try:
        found = trace(op.formula, dims, numbers)
        for node in found.nodes:
            if node.kind in ("extent", "position") and not {*node.over} <= {*found.dims}:
                where, known = f"{node.kind}({node.label!r})", ", ".join(map(repr, found.dims))
                raise FormulaError(f"{where}: given {', '.join(inputs)} there are only the dimensions {known}")
            if node.kind == "function":
                function(node.label, node.value, node.low)  # raises if the family has no such constant
        return found
    except FormulaError as error:
        raise OpError(f"{op.name}: {error}") from error
    except Exception as error:
        given = ", ".join([*inputs, *numbers])
        raise OpError(f"{op.name}: its formula, given {given}: {type(error).__name__}: {error}") from error


def _check_names(op: Op) -> None:
    inputs, outputs = ([each.name for each in some] for some in (op.inputs, op.outputs))
    for flip in op.flips:
        _require("flips", op, flip.inputs, inputs)
        _require("flips", op, flip.outputs, outputs)
    _require("scaling", op, op.scaling, [*inputs, *outputs])
    needed = {each.name: each.only_with for each in op.operands} | {each.name: each.only_with for each in op.parameters}
    for name, other in needed.items():
        if other:
            _require(f"{name}: only_with", op, [other], [*inputs, *outputs])


def _require(where: str, op: Op, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise OpError(f"{op.name}: {where}: {name!r} is not one of {', '.join(known)}")
