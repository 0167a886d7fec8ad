"""An op from a reference: what its arguments are, its formula, and the line that says what was read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oracles.op import Op
from oracles.operand import FLAGS, Operand
from oracles.reference.asked import Asked, Shapes, asked_of, dtypes_of, example
from oracles.reference.dims import UnreadableError, declared_dims, third
from oracles.reference.guard import Agreement, hold
from oracles.reference.names import returned_names
from oracles.reference.reading import Reader, Value
from oracles.reference.recording import record
from oracles.reference.rules import RULES
from oracles.reference.text import Formula, formula, identifier, written


@dataclass(frozen=True)
class Derived:
    """An op that was read from a reference."""

    op: Op
    formula: Formula
    said: str
    """What was read, in one line."""

    @property
    def module(self) -> str:
        """The text of a module that declares the op."""
        return written(self.op, self.formula.text, self.said)


def derive(
    reference: Callable[..., Any],
    shapes: Shapes | None = None,
    *,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dtypes: Mapping[str, str] | None = None,
    fixed: Mapping[str, int] | None = None,
    values: Mapping[str, str] | None = None,
    name: str = "",
) -> Derived:
    """Return the op that a reference says. Raises UnreadableError, whose message names the reference.

    `shapes` names the dimensions of its tensors, such as {"x": "b n", "w": "n"} or "x=b n, w=n"; `...` in front is any
    number of others. Without it example inputs say what there is, or a lone argument has rows.
    """
    label = str(getattr(reference, "__name__", "reference"))
    try:
        for asked in asked_of(reference, shapes, example_inputs, dtypes or {}, fixed or {}, values or {}):
            try:
                return _derived(asked, name)
            except UnreadableError as error:
                refused = error
                if shapes is not None:
                    break
        raise refused
    except UnreadableError as error:
        raise UnreadableError(f"reference {label} cannot be read: {error}") from error


def _derived(asked: Asked, name: str) -> Derived:
    dims = declared_dims(asked.dims, asked.fixed)
    dtypes = dtypes_of(asked, dims)
    calls = [example(asked, dims, dtypes, which) for which in (0, 1)]
    recording = record(asked.call, [*asked.dims], calls)
    reader = Reader(
        recording, {each: tuple(map(dims.__getitem__, some)) for each, some in asked.dims.items()}, RULES, dims
    )
    outputs = reader.read()
    names = _output_names(asked, recording.names, len(outputs))
    own = inspect.getdoc(asked.reference) or ""
    summary = own.split("\n")[0].replace("\\", "").replace('"', "'").strip()
    shown = formula(
        identifier(name or asked.name, "reference"), [*asked.dims], reader.lines,
        dict(zip(names, map(reader.expression, outputs), strict=True)), summary,
    )  # fmt: skip
    operands = _inputs(asked, dtypes, reader.indices)
    returned = tuple(Operand(each, _dims_of(each, value)) for each, value in zip(names, outputs, strict=True))
    file = f"<formula of {asked.name}, {getattr(asked.reference, '__module__', '')}>"
    function = shown.function(file, str(getattr(asked.reference, "__module__", "")))
    op = Op(function, operands, returned, fixed=dict(asked.fixed))
    extents = [{each.name: each.sizes[which] for each in dims.values()} for which in (0, 1)]
    agreement = hold(op, asked.call, [*extents, third(dims, asked.fixed)])
    values = dict.fromkeys(agreement.positive, "positive") | dict(asked.values)
    inputs = tuple(_drawn(each, values.get(each.name, "")) for each in op.inputs)
    said = _said(asked, op, reader.operations, agreement)
    return Derived(Op(function, inputs, returned, fixed=dict(asked.fixed), summary=said), shown, said)


def _drawn(operand: Operand, values: str) -> Operand:
    return replace(operand, values=values) if values else operand


def _said(asked: Asked, op: Op, operations: int, agreement: Agreement) -> str:
    shapes = [", ".join(f"{each.name}[{', '.join(each.axes)}]" for each in some) for some in (op.inputs, op.outputs)]
    count = f"{operations} operation{'s' * (operations != 1)}"
    same = f"same value as the reference in float64 at {agreement.sets} sets of extents"
    parts = [f"reference {asked.name}: {shapes[0]} -> {shapes[1]}, {count}, {same}"]
    if agreement.positive:
        parts.append(f"{' and '.join(agreement.positive)} drawn positive: else there is NaN")
    if agreement.specials:
        parts.append(f"other than the reference where {agreement.specials} goes in")
    return "; ".join(parts)


def _dims_of(name: str, value: Value) -> str:
    for axis in value.axes:
        if len(axis) != 1:
            what = " and ".join(dim.name for dim in axis) if axis else "one element"
            raise UnreadableError(f"{name} has an axis of {what}: an output has an axis for each of its dimensions")
    return " ".join(axis[0].name for axis in value.axes)


def _output_names(asked: Asked, keys: Sequence[str], count: int) -> Sequence[str]:
    known = keys or returned_names(asked.reference)
    known = known if len(known) == count else [""] * count
    found = list[str]()
    for at, each in enumerate(known):
        other = "y" if count == 1 else f"y{at}"
        name = identifier(each, other)
        while name in asked.dims or name in found:
            name = other if name != other else f"{name}_out"
        found.append(name)
    return found


def _inputs(asked: Asked, dtypes: Mapping[str, str], indices: Mapping[str, str]) -> tuple[Operand, ...]:
    """The operands, the one with the most dimensions first: the shapes of a case follow from it."""
    found = list[Operand]()
    for name, some in asked.dims.items():
        dims, dtype = " ".join(some), dtypes[name]
        if dtype == "bool":
            found.append(Operand(name, dims, dtype="bool", values=FLAGS))
        elif "int" in dtype:
            if name not in indices:
                raise UnreadableError(
                    f"{name} is of {dtype} and says no places: formulas have integers as places alone"
                )
            found.append(Operand(name, dims, dtype=dtype, index=indices[name]))
        else:
            found.append(Operand(name, dims))
    return tuple(sorted(found, key=lambda each: (bool(each.integers), -len(each.axes))))
