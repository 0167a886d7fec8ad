"""Published test suites as data: the sweeps that they run, expanded to cases of our ops. Values are drawn by "fills",
which give the same bits with every version of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from fuzz.campaign.corpus.folder import SUITE
from fuzz.core.base.capability import MAX_RANK
from fuzz.core.base.case import Case, CaseError, Origin, contiguous
from fuzz.core.base.draw import GIVEN, Draw, Given, Part, Placement
from fuzz.core.base.dtypes import quantise
from fuzz.core.base.stream import Reals, Stream
from fuzz.core.base.text import printable
from fuzz.core.base.validity import check_case, unknown_op
from fuzz.core.generate.given import given_rows
from fuzz.core.generate.realise import realise
from fuzz.findings import document
from fuzz.findings.document import told
from oracles.arrangement import Arrangement
from oracles.formula.exact.arithmetic import Double
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.trace import FormulaError, trace
from oracles.op import Extents, Op
from oracles.operand import AXIS, OUTER
from oracles.ops import OPS

MOST_ELEMENTS = 8192
"""The most elements of the first input in a gate: further rows would only repeat the earlier ones."""
LONGEST_ROW = 32768
"""The longest row, and the largest product of extents: a gate has no time for more."""
MOST_PRODUCTS = 64 * LONGEST_ROW
"""The most products for one row of an op that contracts several dimensions: attention over 129 queries and keys of 64
elements."""
_LARGEST = 1 << 31
"""The largest extent or axis number in a suite: published sweeps use tensors that fit into memory."""


@dataclass(frozen=True)
class SuiteShape:
    """The extents of a case. A suite gives them as a list, the shape of the first input, or as an object with a number
    for each named dimension and a list for "..."."""

    grid: tuple[int, ...]
    """The shape of the first input."""
    axis: int
    """The index of the axis of the first input along which rows lie."""
    extents: Extents = field(default_factory=dict)
    """The extents of dimensions that the first input does not have."""

    @classmethod
    def of(cls, op: Op, axis: int, said: object) -> SuiteShape:
        """Return the extents that a suite gives, with rows along this axis of the first input. Raises ValueError."""
        if isinstance(said, list):
            grid, extents = tuple(map(_extent, said)), dict[str, int]()
        else:
            known = dict(said) if isinstance(said, Mapping) else {}
            if {*known} - {OUTER} != {*op.named}:
                raise ValueError(f"shapes: {told(said)} must be a list, or an object with {', '.join(op.named)}")
            grid = (*map(_extent, known.get(OUTER, [])), *(_extent(known[dim]) for dim in op.inner))
            extents = {dim: _extent(known[dim]) for dim in op.further}
        if not 0 < len(grid) <= MAX_RANK:
            raise ValueError(f"shapes: each needs from 1 to {MAX_RANK} axes")
        found = cls(grid, axis % len(grid), extents)
        if not op.possible_shapes(op.main, grid, found.axis, extents) or {*op.further} - extents.keys():
            raise ValueError(f"shapes: {told(said)} is no extents of {', '.join((*op.inputs[0].axes, *op.further))}")
        return found

    def __str__(self) -> str:
        return f"{self.grid} {dict(self.extents)}" if self.extents else str(self.grid)

    @property
    def places(self) -> int:
        """Return the product of all extents but zeros."""
        return math.prod(max(1, extent) for extent in (*self.grid, *self.extents.values()))

    def cut(self, op: Op) -> SuiteShape:
        """Return the shape with fewer slices along batched dimensions. First the first input is cut, from its outermost
        axis on, to at most MOST_ELEMENTS; then dimensions that it lacks are cut, until the product of all extents is at
        most LONGEST_ROW; and then the first input again, until the product is at most MOST_PRODUCTS."""
        extents = dict(self.extents)
        grid = self._cut(op, self.grid, MOST_ELEMENTS)
        for dim, size in self.extents.items():
            rest = math.prod((*grid, *(extent for other, extent in extents.items() if other != dim)))
            if rest and size and op.dimensions[dim].batched:
                extents[dim] = max(1, min(size, LONGEST_ROW // rest))
        if extents:
            grid = self._cut(op, grid, MOST_PRODUCTS // max(1, math.prod(extents.values())))
        return SuiteShape(grid, self.axis, extents)

    def _cut(self, op: Op, extents: Sequence[int], most: int) -> tuple[int, ...]:
        """Return the shape of the first input with fewer slices, so that it has at most `most` elements."""
        grid = [*extents]
        for place, dim in enumerate(op.dims(op.main, len(grid), self.axis).split()):
            rest = math.prod(extent for other, extent in enumerate(grid) if other != place)
            if place != self.axis and rest and op.dimensions[dim].batched:
                grid[place] = max(1, min(grid[place], most // rest)) if grid[place] else 0
        return tuple(grid)


def integer(name: str, number: object) -> int:
    """Return the number. Raises ValueError if it is no integer, or too large to be an axis or an offset."""
    if not isinstance(number, int) or abs(number) > _LARGEST:
        raise ValueError(f"{name}: {told(number)} is not an integer, or too large")
    return number


def _extent(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise ValueError(f"shapes: {told(value)} is not an extent")
    return value


VERSION = 1
Params = Mapping[str, float]
"""Parameters by name."""
Fill = Mapping[str, Any]
"""A fill, for example {"fill": "uniform", "low": -2.3, "high": -1.8}."""
_NORMAL: Fill = {"fill": "normal"}
_STRUCTURED = frozenset({"constant", "integers", "values"})
"""Fills with regular values, whose rounding errors are not random: only the worst-case budget holds for them."""


def _wave(function: Callable[[Any], Any]) -> Callable[[Fill, int, Stream], Reals]:
    """Return a fill with the values amplitude * function(step * i), calculated by mpmath, since the last bit of a C
    library's sine may differ."""

    def wave(fill: Fill, count: int, stream: Stream) -> Reals:
        with mpmath.workprec(80):
            step, amplitude = mpmath.mpf(str(fill["step"])), mpmath.mpf(str(fill["amplitude"]))
            return np.array([float(amplitude * function(step * i)) for i in range(count)])

    return wave


_FILLS: Mapping[str, Callable[[Fill, int, Stream], Reals]] = {
    "normal": lambda fill, count, stream: (
        stream.normal(count) * float(fill.get("scale", 1)) + float(fill.get("shift", 0))
    ),
    "uniform": lambda fill, count, stream: (
        stream.uniform(count) * (float(fill["high"]) - float(fill["low"])) + float(fill["low"])
    ),
    "integers": lambda fill, count, stream: stream.integers(count, fill["low"], fill["high"]).astype(np.float64),
    "constant": lambda fill, count, stream: np.full(count, float(fill["value"])),
    # The listed values, repeated.
    "values": lambda fill, count, stream: np.resize(np.array(fill["values"], dtype=np.float64), count),
    "sine": _wave(mpmath.sin),
    "cosine": _wave(mpmath.cos),
}


class SuiteError(CaseError):
    """A suite cannot be read. The message names the file and the sweep."""


@dataclass(frozen=True)
class SuiteTolerance:
    """The tolerance of a suite: |got - want| <= atol + rtol * |want|."""

    atol: float
    rtol: float = 0.0


@dataclass(frozen=True)
class Sweep:
    """A group of published cases: every shape in every dtype with every combination of parameters."""

    name: str
    op: str
    shapes: tuple[SuiteShape, ...]
    dtypes: tuple[str, ...]
    params: Mapping[str, float | list[float]] = field(default_factory=dict)
    """The parameters of the op: for each a number, or a list of numbers to go through."""
    optional: tuple[str, ...] = ()
    """The names of the optional tensors that are given."""
    fills: Mapping[str, Fill] = field(default_factory=dict)
    """The fills, by the names of inputs. An input without a fill is standard normal."""
    mixed: Mapping[str, str] = field(default_factory=dict)
    """The dtypes, by name, of tensors that have another dtype than the op gives them."""
    pitch: int = 0
    """The distance in elements between two rows of the first input; 0 if rows are packed."""
    shift: int = 0
    """The distance in elements of the first input from an aligned address."""
    tolerance: Mapping[str, SuiteTolerance] = field(default_factory=dict)
    """The tolerances, by the name of an output or by the dtype of the first input."""
    facts: str = ""


@dataclass(frozen=True)
class Suite:
    """The sweeps of one system."""

    system: str
    source: str
    sweeps: tuple[Sweep, ...]


@dataclass(frozen=True)
class Published:
    """One case of an expanded suite."""

    suite: str
    sweep: Sweep
    case: Case
    shape: SuiteShape
    """The published extents; the case may have fewer rows."""


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
    """Yield every case of the suite, with rows cut to MOST_ELEMENTS. Cases whose rows are longer than LONGEST_ROW, or
    that still have more than MOST_PRODUCTS, are left out: a gate has no time for them."""
    for sweep in suite.sweeps:
        for shape in sweep.shapes:
            cut = shape.cut(OPS[sweep.op])
            if max(shape.grid, default=0) > LONGEST_ROW or (shape.extents and cut.places > MOST_PRODUCTS):
                continue
            for dtype in sweep.dtypes:
                for params in _swept(sweep):
                    yield Published(suite.system, sweep, _case(suite.system, sweep, cut, dtype, params), shape)


def _swept(sweep: Sweep) -> Iterator[Params]:
    """Yield every combination of the parameters' values."""
    each = [value if isinstance(value, list) else [value] for value in sweep.params.values()]
    for values in product(*each):
        yield dict(zip(sweep.params, values, strict=True))


def _case(system: str, sweep: Sweep, shape: SuiteShape, dtype: str, params: Params) -> Case:
    """Return one case. Raises SuiteError, since mistakes in a sweep's fills and axes show only here."""
    if shape.places > LONGEST_ROW * MOST_ELEMENTS:
        raise SuiteError(f"{system}: sweep {sweep.name}: shape {told(str(shape))}: an empty tensor of too many rows")
    try:
        case = realise(_draw(system, sweep, shape, dtype, params))
        check_case(case)
    except SuiteError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SuiteError(f"{system}: sweep {sweep.name}: shape {told(str(shape))}: {error}") from error
    return case


def _sweep(record: Mapping[str, Any]) -> Sweep:
    name = printable(str(record["name"]))
    if record["op"] not in OPS:
        raise SuiteError(f"sweep {name}: {unknown_op(told(record['op']))}")
    op = OPS[record["op"]]
    names = [each.name for each in op.parameters]
    try:
        known: dict[str, Any] = {
            **{str(key): value for key, value in record.items() if key not in (*names, "axis")},
            "name": name,
            "params": {each: record[each] for each in names if each in record},
            "shapes": tuple(
                SuiteShape.of(op, integer("axis", record.get("axis", -1)), shape) for shape in record["shapes"]
            ),
            **{key: tuple(record[key]) for key in ("dtypes", "optional") if key in record},
            "tolerance": {key: SuiteTolerance(**allowed) for key, allowed in record.get("tolerance", {}).items()},
        }
        for place in ("pitch", "shift"):
            integer(place, record.get(place, 0))
        return Sweep(**known)
    except (TypeError, ValueError) as error:
        raise SuiteError(f"sweep {name}: {error}") from error


def _draw(system: str, sweep: Sweep, shape: SuiteShape, dtype: str, params: Params) -> Draw:
    op, axis, grid = OPS[sweep.op], shape.axis, shape.grid
    swept = [str(value) for name, value in params.items() if isinstance(sweep.params[name], list)]
    label = "/".join([system, sweep.name, str(shape), dtype, *swept])
    params = {name: float(np.float32(value)) for name, value in params.items()}
    there = [operand for operand in op.operands if not operand.optional or operand.name in sweep.optional]
    dtypes, arrays = _dtypes(op, sweep, dtype), dict[str, NDArray[Any]]()
    for operand in (each for each in there if each in op.inputs):
        name = operand.name
        own = op.shape(name, grid, axis, shape.extents)
        found = None if name in sweep.fills or not operand.optional else _formed(op, name, arrays, axis, params)
        found = _filled(sweep, name, own, label) if found is None else found
        arrays[name] = quantise(found, dtypes[name])
    draw = Draw(
        op=sweep.op,
        n=grid[axis],
        outer=(*grid[:axis], *grid[axis + 1 :]),
        params={AXIS: axis, **{name: value for name, value in params.items() if value != op.parameter(name).neutral}},
        seed=0,
        parts=tuple(Part(operand.name, dtypes[operand.name]) for operand in there),
        structured=any(sweep.fills.get(name, _NORMAL).get("fill") in _STRUCTURED for name in {*arrays} - op.columns),
        origin=Origin(f"{system} suite", "contiguous"),
        extents=shape.extents,
    )
    draw = draw.with_parts(
        *(replace(draw.part(name), recipe=GIVEN, given=_given(draw, name, arrays[name])) for name in arrays)
    )
    return draw.with_parts(replace(draw.part(op.main), place=_place(sweep, grid)))


def _dtypes(op: Op, sweep: Sweep, dtype: str) -> dict[str, str]:
    found = {op.main: dtype}
    for each in op.operands:  # an operand comes after the one whose dtype it has
        usual = found.get(each.dtype or op.main, each.dtype)
        found[each.name] = sweep.mixed.get(each.name, usual)
    return found


def _filled(sweep: Sweep, name: str, shape: tuple[int, ...], label: str) -> Reals:
    """Return the values of an input, in C order, before they are rounded to a storage dtype."""
    fill, where = sweep.fills.get(name, _NORMAL), f"sweep {sweep.name}: {name}"
    kind = str(fill.get("fill"))
    if kind not in _FILLS:
        raise SuiteError(f"{where}: fill: {kind!r} is not one of {', '.join(_FILLS)}")
    try:
        return _FILLS[kind](fill, math.prod(shape), Stream(0).child(f"{label}/{name}")).reshape(shape)
    except KeyError as error:
        raise SuiteError(f"{where}: fill {kind}: {error.args[0]} is missing") from error


def _place(sweep: Sweep, shape: tuple[int, ...]) -> Placement:
    """Return where the first input lies in memory. The offset is counted from the guard page, whose end is aligned."""
    strides = (*contiguous((*shape[:-1], sweep.pitch)).strides[:-1], 1) if sweep.pitch else None
    return Placement(guard="before" if sweep.shift else "after", offset=sweep.shift, strides=strides)


def _formed(
    op: Op, name: str, arrays: Mapping[str, NDArray[Any]], axis: int, params: Params
) -> NDArray[np.float64] | None:
    """Return an optional input as the op's formula computes it where it is absent, such as the rstd that a forward pass
    stores for a backward pass. None where the formula computes nothing of that name."""
    formula = trace(op.formula, {each: op.operand(each).axes for each in arrays}, [*params])
    try:
        node = formula.named(name)
    except FormulaError:
        return None
    arrangement = Arrangement(op, {each: array.shape for each, array in arrays.items()}, axis)
    given = {each: arrangement.collapsed(each, array.astype(np.float64)) for each, array in arrays.items()}
    # In double-double, so that the order of NumPy's additions does not show after rounding.
    inputs = Inputs(formula, given, params)
    found = evaluate(inputs, Double())[node]
    return arrangement.returned(name, found.high, {dim: inputs.extents[dim] for dim in formula.dims})


def _given(draw: Draw, name: str, array: NDArray[Any]) -> Given:
    """Return an array as the rows of a part."""
    array = np.moveaxis(array, draw.axis, -1) if name in OPS[draw.op].alike else array
    return given_rows(array.reshape(draw.block(name)))


def suites(folder: Path) -> Sequence[Suite]:
    """Return the suites in `folder`, by file name."""
    return [load_suite(path) for path in sorted(folder.glob("*.json"))]
