"""Published test suites as data: what their own sweeps run, expanded to cases of our ops. The ways in which the suites
make their data, the fills, give bits that no library version changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

from fuzz.base.capability import MAX_RANK
from fuzz.base.case import Case, CaseError, Origin, contiguous
from fuzz.base.draw import GIVEN, Draw, Given, Part, Placement
from fuzz.base.dtypes import quantise
from fuzz.base.stream import Reals, Stream
from fuzz.base.text import printable
from fuzz.base.validity import check_case, unknown_op
from fuzz.findings import document
from fuzz.findings.document import told
from fuzz.generate.given import given_rows, rows_of
from fuzz.generate.realise import realise
from fuzz.uses.corpus.folder import SUITE
from oracles.declared import AXIS
from oracles.formula.exact.arithmetic import Double
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.trace import FormulaError, trace
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS

VERSION = 1
MOST_ELEMENTS = 8192
"""The rows of a tensor in a gate are cut until it has this many elements, since rows beyond the first few repeat what
was seen."""
LONGEST_ROW = 32768
_LARGEST = 1 << 31
"""No number of a shape or a place is larger: published sweeps are of what fits into memory."""

Params = Mapping[str, float]
"""Parameters by name."""
Fill = Mapping[str, Any]
"""A fill is such as {"fill": "uniform", "low": -2.3, "high": -1.8}."""
_NORMAL: Fill = {"fill": "normal"}
_STRUCTURED = frozenset({"constant", "integers", "values"})
"""The rounding errors of these fills are not random, so that only the worst-case budget is sound."""


def _wave(function: Callable[[Any], Any]) -> Callable[[Fill, int, Stream], Reals]:
    """amplitude * f(step * i). By mpmath: the C library's sine may differ in its last bit."""

    def wave(fill: Fill, count: int, stream: Stream) -> Reals:
        with mpmath.workprec(80):
            step, amplitude = mpmath.mpf(str(fill["step"])), mpmath.mpf(str(fill["amplitude"]))
            return np.array([float(amplitude * function(step * i)) for i in range(count)])

    return wave


_FILLS: Mapping[str, Callable[[Fill, int, Stream], Reals]] = {
    "normal": lambda fill, count, stream: stream.normal(count),
    "uniform": lambda fill, count, stream: (
        stream.uniform(count) * (float(fill["high"]) - float(fill["low"])) + float(fill["low"])
    ),
    "integers": lambda fill, count, stream: stream.integers(count, fill["low"], fill["high"]).astype(np.float64),
    "constant": lambda fill, count, stream: np.full(count, float(fill["value"])),
    # The listed values, over and over.
    "values": lambda fill, count, stream: np.resize(np.array(fill["values"], dtype=np.float64), count),
    "sine": _wave(mpmath.sin),
    "cosine": _wave(mpmath.cos),
}


class SuiteError(CaseError):
    """A suite that cannot be read. The message names the file and the sweep."""


@dataclass(frozen=True)
class Tolerance:
    """What a suite allows: |got - want| <= atol + rtol * |want|."""

    atol: float
    rtol: float = 0.0


@dataclass(frozen=True)
class Sweep:
    """One group of published cases: every shape with every dtype and all values of the parameters."""

    name: str
    op: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    axis: int = -1
    params: Mapping[str, float | list[float]] = field(default_factory=dict)
    """The op's parameters: a number, or those that are swept."""
    optional: tuple[str, ...] = ()
    """These optional tensors are there."""
    fills: Mapping[str, Fill] = field(default_factory=dict)
    """The fills by input; an input of which nothing is said is standard normal."""
    mixed: Mapping[str, str] = field(default_factory=dict)
    """The dtypes of tensors that do not follow the op."""
    pitch: int = 0
    """The number of elements between two rows of the first input, where they are not packed."""
    shift: int = 0
    """The number of elements by which the first input is off its alignment."""
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    """The tolerances by output, or by dtype of the first input."""
    facts: str = ""


@dataclass(frozen=True)
class Suite:
    """The sweeps of one system."""

    system: str
    source: str
    sweeps: tuple[Sweep, ...]


@dataclass(frozen=True)
class Published:
    """One expanded case of a suite."""

    suite: str
    sweep: Sweep
    case: Case
    shape: tuple[int, ...]
    """The shape as published; the case may have fewer rows."""


def load_suite(path: Path) -> Suite:
    """Read a suite. Raises SuiteError."""
    record = document.read(path)
    try:
        if record.get(SUITE) != VERSION:
            raise SuiteError(f"format {told(record.get(SUITE))} is not one that this version reads ({VERSION})")
        system, source = printable(record["system"]), printable(record["source"])
        return Suite(system, source, tuple(_sweep(each) for each in record["sweeps"]))
    except KeyError as error:
        raise SuiteError(f"{path}: not a suite: {error.args[0]} is missing") from error
    except (TypeError, AttributeError, CaseError) as error:
        raise SuiteError(f"{path}: not a suite: {error}") from error


def expand(suite: Suite) -> Iterator[Published]:
    """Every case of the suite, with rows cut to MOST_ELEMENTS. Rows longer than LONGEST_ROW are left out: no gate
    has the time for them."""
    for sweep in suite.sweeps:
        for shape in sweep.shapes:
            if max(shape, default=0) > LONGEST_ROW:
                continue
            for dtype in sweep.dtypes:
                for params in _swept(sweep):
                    yield Published(suite.system, sweep, _case(suite.system, sweep, shape, dtype, params), shape)


def _swept(sweep: Sweep) -> Iterator[Params]:
    """Every choice of the parameters."""
    each = [value if isinstance(value, list) else [value] for value in sweep.params.values()]
    for values in product(*each):
        yield dict(zip(sweep.params, values, strict=True))


def _case(system: str, sweep: Sweep, shape: tuple[int, ...], dtype: str, params: Params) -> Case:
    """One of them. Raises SuiteError: what a sweep says of its fills and places shows here."""
    cut = _cut(shape, sweep.axis)
    if math.prod(max(extent, 1) for extent in cut) > LONGEST_ROW * MOST_ELEMENTS:
        raise SuiteError(f"{system}: sweep {sweep.name}: shape {told(shape)}: an empty tensor of too many rows")
    try:
        case = realise(_draw(system, sweep, cut, dtype, params))
        check_case(case)
    except SuiteError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SuiteError(f"{system}: sweep {sweep.name}: shape {told(shape)}: {error}") from error
    return case


def _sweep(record: Mapping[str, Any]) -> Sweep:
    name = printable(str(record["name"]))
    if record["op"] not in OPS:
        raise SuiteError(f"sweep {name}: {unknown_op(told(record['op']))}")
    op = OPS[record["op"]]
    if not op.by_rows:
        raise SuiteError(f"sweep {name}: {op.name} is not a row op, of which sweeps are")
    names = [each.name for each in op.parameters]
    try:
        known: dict[str, Any] = {
            **{str(key): value for key, value in record.items() if key not in names},
            "name": name,
            "params": {each: record[each] for each in names if each in record},
            "shapes": tuple(tuple(_extent(extent) for extent in shape) for shape in record["shapes"]),
            **{key: tuple(record[key]) for key in ("dtypes", "optional") if key in record},
            "tolerance": {key: Tolerance(**allowed) for key, allowed in record.get("tolerance", {}).items()},
        }
        sweep = Sweep(**known)
    except (TypeError, ValueError) as error:
        raise SuiteError(f"sweep {name}: {error}") from error
    if not all(0 < len(shape) <= MAX_RANK for shape in sweep.shapes):
        raise SuiteError(f"sweep {name}: shapes: each needs from 1 to {MAX_RANK} axes")
    for place, number in (("axis", sweep.axis), ("pitch", sweep.pitch), ("shift", sweep.shift)):
        if not isinstance(number, int) or abs(number) > _LARGEST:
            raise SuiteError(f"sweep {name}: {place}: {told(number)} is not an integer, or too large")
    return sweep


def _extent(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise ValueError(f"shapes: {told(value)} is not an extent")
    return value


def _cut(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Fewer rows, from the outermost axis on, until the tensor has at most MOST_ELEMENTS."""
    cut, kept = list(shape), axis % len(shape)
    for place in range(len(cut)):
        rest = int(np.prod([extent for other, extent in enumerate(cut) if other != place], dtype=np.int64))
        if place != kept and rest:
            cut[place] = max(1, min(cut[place], MOST_ELEMENTS // rest)) if cut[place] else 0
    return tuple(cut)


def _draw(system: str, sweep: Sweep, shape: tuple[int, ...], dtype: str, params: Params) -> Draw:
    op, axis = OPS[sweep.op], sweep.axis % len(shape)
    swept = [str(value) for name, value in params.items() if isinstance(sweep.params[name], list)]
    label = "/".join([system, sweep.name, str(shape), dtype, *swept])
    params = {name: float(np.float32(value)) for name, value in params.items()}
    there = [operand for operand in op.operands if not operand.optional or operand.name in sweep.optional]
    dtypes, parts = _dtypes(op, sweep, dtype), dict[str, Part]()
    for operand in there:
        part = parts[operand.name] = Part(operand.name, dtypes[operand.name])
        if operand in op.inputs:
            values = quantise(_filled(sweep, operand.name, op.shape(operand.name, shape, axis), label), part.dtype)
            given = given_rows(np.moveaxis(values, axis, -1) if op.role(operand.name) == "grid" else values)
            if operand.optional and operand.name not in sweep.fills:
                given = _formed(op, operand, parts, params) or given
            parts[operand.name] = replace(part, recipe=GIVEN, given=given)
    parts[op.main] = replace(parts[op.main], place=_place(sweep, shape))
    named = [operand.name for operand in there if operand in op.inputs and op.role(operand.name) != "columns"]
    return Draw(
        op=sweep.op,
        n=shape[axis],
        outer=(*shape[:axis], *shape[axis + 1 :]),
        params={AXIS: axis, **{name: value for name, value in params.items() if value != op.parameter(name).neutral}},
        seed=0,
        parts=tuple(parts.values()),
        structured=any(sweep.fills.get(name, _NORMAL).get("fill") in _STRUCTURED for name in named),
        origin=Origin(f"{system} suite", "contiguous"),
    )


def _dtypes(op: Op, sweep: Sweep, dtype: str) -> dict[str, str]:
    found = {op.main: dtype}
    for each in op.operands:  # a tensor comes after the one whose dtype it has
        usual = found.get(each.dtype or op.main, each.dtype)
        found[each.name] = sweep.mixed.get(each.name, usual)
    return found


def _filled(sweep: Sweep, name: str, shape: tuple[int, ...], label: str) -> Reals:
    """The values of an input, in C order, not yet rounded to a storage dtype."""
    fill, where = sweep.fills.get(name, _NORMAL), f"sweep {sweep.name}: {name}"
    kind = str(fill.get("fill"))
    if kind not in _FILLS:
        raise SuiteError(f"{where}: fill: {kind!r} is not one of {', '.join(_FILLS)}")
    try:
        return _FILLS[kind](fill, math.prod(shape), Stream(0).child(f"{label}/{name}")).reshape(shape)
    except KeyError as error:
        raise SuiteError(f"{where}: fill {kind}: {error.args[0]} is missing") from error


def _place(sweep: Sweep, shape: tuple[int, ...]) -> Placement:
    """Where the first input lies: off alignment by counting from the guard page, whose end is aligned."""
    strides = (*contiguous((*shape[:-1], sweep.pitch)).strides[:-1], 1) if sweep.pitch else None
    return Placement(guard="before" if sweep.shift else "after", offset=sweep.shift, strides=strides)


def _formed(op: Op, operand: Operand, parts: Mapping[str, Part], params: Params) -> Given | None:
    """What the op's formula forms itself where it is not given an optional input, as a backward pass forms rstd: it is
    given what a forward pass stored. None where it forms nothing of that name."""
    there = {name: part.given for name, part in parts.items() if part.given is not None and name != operand.name}
    formula = trace(op.formula, {name: op.operand(name).axes for name in there}, [*params])
    try:
        node = formula.named(operand.name)
    except FormulaError:
        return None
    arrays = {
        name: rows_of(given).astype(np.float64).reshape(-1, given.n)[:, 0 if op.role(name) == "rows" else slice(None)]
        for name, given in there.items()
    }
    arrays = {name: values[0] if op.role(name) == "columns" else values for name, values in arrays.items()}
    # In double-double: where NumPy's order of additions is its own business, its results are rounded alike.
    found = evaluate(Inputs(formula, arrays, params), Double())[node]
    return given_rows(quantise(found.high.reshape(-1, 1), parts[operand.name].dtype))


def suites(folder: Path) -> Sequence[Suite]:
    """The suites in `folder`, by file name."""
    return [load_suite(path) for path in sorted(folder.glob("*.json"))]
