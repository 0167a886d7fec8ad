"""Blueprints: a failing case as something that can be built again with one thing changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import Case, CaseError, Guard, Layout, Origin, Output, Tensor
from fuzz.base.dtypes import from_bits, quantise
from fuzz.base.op import OPS, adjacent_extent
from fuzz.base.stream import Reals, Stream
from fuzz.generate.layouts import OVERLAPPING, lay_out
from fuzz.triage.memory import lies_over, shift, with_overlap
from fuzz.triage.reduction import Frame, folded
from fuzz.triage.traits import layout_class

BASE = "base"
"""the values of the case itself, repeated or cut."""
_SCALES: Mapping[str, tuple[int, int]] = {"normal": (0, 0), "large": (30, 6), "tiny": (-30, -6)}
"""powers of two by which normal values are scaled, in wide and in 16-bit dtypes."""
Shift = tuple[int, int]
"""how far an output lies from an input: elements, and rows of n elements."""
VALUES = (BASE, "ones", "integers", *_SCALES, "zeros", "one NaN", "one infinity", "spike")
UNEVEN = (*_SCALES, "one NaN", "one infinity", "spike")
"""values of which no two neighbours are alike: one that is written over shows."""


@dataclass(frozen=True)
class Blueprint:
    """How to build a case like `base`. Rows are along one axis, unless the base has another rank."""

    base: Case
    n: int
    rows: int
    rank: int
    axis: int
    dtype: str
    layouts: Mapping[str, str]
    """class by tensor of x's shape."""
    guard: Guard
    offset: int
    values: str
    seed: int
    eps: float
    aliases: frozenset[tuple[str, str]]
    dropped: frozenset[str] = frozenset()
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """of tensors other than x, where they are not those of the base."""
    steps: Mapping[str, int] = field(default_factory=dict)
    """distance between elements of tensors that are one column or row, where it is not 1."""
    ones: frozenset[str] = frozenset()
    """inputs that are 1 everywhere."""
    overlaps: Mapping[str, tuple[str, Shift]] = field(default_factory=dict)
    """by output that overlaps an input: which, and how far on."""
    shared: frozenset[str] = frozenset()
    """inputs that are x itself."""
    places: Mapping[str, tuple[Guard, int]] = field(default_factory=dict)
    """guard and offset of tensors that do not lie as x does."""
    stacks: Mapping[str, str] = field(default_factory=dict)
    """by weight of rank 2: 'one' row for all rows, or 'many', one for each."""

    @classmethod
    def of(cls, case: Case) -> Blueprint:
        """The blueprint of a case; what it builds may have other gaps than the case itself."""
        frame = Frame(case)
        tensors: dict[str, Tensor | Output] = {**case.inputs, **case.outputs}
        x = case.inputs["x"]
        single = {n: t.layout.strides[-1] for n, t in tensors.items() if frame.role(n) != "grid" and t.layout.size > 1}
        return cls(
            base=case,
            n=frame.n,
            rows=x.layout.size // max(frame.n, 1),
            rank=len(frame.grid),
            axis=frame.axis,
            dtype=x.dtype,
            layouts={n: layout_class(t.layout, frame.axis) for n, t in tensors.items() if frame.role(n) == "grid"},
            guard=x.layout.guard,
            offset=x.layout.offset,
            values=BASE,
            seed=0,
            eps=float(case.params.get("eps", 0.0)),
            aliases=frozenset(
                (name, o.alias) for name, o in case.outputs.items() if o.alias is not None and not lies_over(case, name)
            ),
            steps={name: step for name, step in single.items() if step != 1},
            overlaps={
                name: (output.alias, _shift_of(case.inputs[output.alias].layout, output.layout, frame.n))
                for name, output in case.outputs.items()
                if output.alias is not None and lies_over(case, name)
            },
            shared=frozenset(name for name, tensor in case.inputs.items() if tensor.alias is not None),
            places={name: (t.layout.guard, t.layout.offset) for name, t in tensors.items() if name != "x"},
            stacks={
                name: "many" if frame.stack(name) == adjacent_extent(frame.grid, frame.axis) else "one"
                for name in case.inputs
                if frame.stack(name)
            },
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """All rows along the first axis that is not normalised."""
        others = [self.rows, *[1] * (self.rank - 2)][: self.rank - 1]
        return (*others[: self.axis], self.n, *others[self.axis :])

    def build(self) -> Case:
        """The case. Raises CaseError where the parts contradict each other."""
        base = self.base
        if self.rank == 1 and self.rows != 1:
            raise CaseError("x: a tensor of rank 1 is one row")
        inputs: dict[str, Tensor] = {}
        for name, tensor in base.inputs.items():
            if name not in self.dropped:
                layout = self._layout(name, self._shape(name), is_input=True)
                own = Tensor(self._dtype(name, tensor.dtype), layout, self._bits(name, tensor, layout))
                inputs[name] = replace(inputs["x"], alias="x") if name in self.shared else own
        over: dict[str, Output] = {}
        for name, (source, (elements, rows)) in self.overlaps.items():
            if not {name, source} & self.dropped and name in base.outputs:
                distance = elements + rows * self.n
                inputs, over[name] = with_overlap(inputs, self._output(name, inputs[source]), source, distance)
        outputs = {}
        aliases = dict(self.aliases)
        for name in base.outputs:
            if name in self.dropped:
                continue
            held = inputs.get(aliases.get(name, ""))
            outputs[name] = over.get(name) or (
                Output(held.dtype, held.layout, aliases[name]) if held is not None else self._output(name)
            )
            if any(stride == 0 < extent - 1 for extent, stride in _steps(outputs[name].layout)):
                raise CaseError(f"{name}: elements of an output share memory")
        params = {**base.params, "axis": self.axis, **({"eps": self.eps} if "eps" in base.params else {})}
        return Case(base.op, params, inputs, outputs, self._structured, Origin(self.values, "varied"))

    def _shape(self, name: str) -> tuple[int, ...]:
        usual = OPS[self.base.op].shape(name, self.shape, self.axis)
        if name not in self.stacks:
            return usual
        return (adjacent_extent(self.shape, self.axis) if self.stacks[name] == "many" else 1, *usual)

    def _output(self, name: str, over: Tensor | None = None) -> Output:
        """The output in memory of its own, or with the dtype and the strides of what it lies over."""
        if over is not None:
            return Output(over.dtype, over.layout)
        layout = self._layout(name, self._shape(name), is_input=False)
        return Output(self._dtype(name, self.base.outputs[name].dtype), layout)

    @property
    def _structured(self) -> bool:
        if self.shared:  # equal rows do not round at random to one another
            return True
        if self.values in _SCALES:
            return False
        return self.values != BASE or self.base.structured or bool(self.ones) or self.n > self._frame.n

    @cached_property
    def _frame(self) -> Frame:
        return Frame(self.base)

    def _dtype(self, name: str, dtype: str) -> str:
        if name in self.dtypes:
            return self.dtypes[name]
        return self.dtype if dtype == self.base.inputs["x"].dtype else dtype

    def _layout(self, name: str, shape: tuple[int, ...], *, is_input: bool) -> Layout:
        wanted = self.layouts.get(name, "contiguous")
        guard, offset = self.places.get(name, (self.guard, self.offset))
        if name not in self.layouts or (not is_input and wanted in OVERLAPPING):
            wanted = "contiguous"
        if name in self.steps and len(shape) == 2 and name not in self.layouts:
            step = self.steps[name]
            return Layout(shape, (step * shape[1], step), guard, offset)
        if name in self.steps and len(shape) == 1:
            return Layout(shape, (self.steps[name],), guard, offset)
        axis = self.axis if name in self.layouts else 0
        return lay_out(wanted, shape, axis, 1, guard, offset) if shape else Layout((), (), guard)

    def _bits(self, name: str, tensor: Tensor, layout: Layout) -> bytes:
        role = self._frame.role(name)
        stack = layout.shape[0] if name in self.stacks else 1
        values = self._matrix(name, tensor, role)
        if role == "columns" and stack == 1:
            values = values[-1:]  # of a stack whose rows differ, often in that the first one is plain
        values = _tiled(values, self._extents(role, stack))
        if role == "grid":
            values = self._filled(name, values)
            outer = (*layout.shape[: self.axis], *layout.shape[self.axis + 1 :])
            values = folded(np.moveaxis(values.reshape(*outer, self.n), -1, self.axis), layout)
        dtype = self._dtype(name, tensor.dtype)
        kept = self.values == BASE and tensor.dtype == dtype
        if name in self.ones:
            values, kept = np.ones(values.shape), False
        if stack > 1 and self._frame.stack(name) < 2:  # rows of weights that are all alike would tell nothing
            values, kept = values.astype(np.float64) * np.arange(1.0, 1 + stack)[:, None], False
        stored = values if kept else quantise(values.astype(np.float64), dtype)
        return np.ascontiguousarray(stored).tobytes()

    def _extents(self, role: str, stack: int) -> tuple[int, int]:
        return {"grid": (self.rows, self.n), "columns": (stack, self.n), "rows": (self.rows, 1)}[role]

    def _matrix(self, name: str, tensor: Tensor, role: str) -> NDArray[np.generic]:
        values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape)
        if role == "grid":
            values = np.moveaxis(values, self._frame.axis, -1)
        rows, columns = {"grid": (-1, self._frame.n), "columns": (-1, self._frame.n), "rows": (-1, 1)}[role]
        return values.reshape(rows, columns)

    def _filled(self, name: str, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Values of the wanted kind, of about the size of those of the base."""
        if self.values == BASE:
            return values
        with np.errstate(all="ignore"):
            wide = values.astype(np.float64)
        finite = np.abs(wide[np.isfinite(wide)])
        level = float(finite.max(initial=0.0)) or 1.0
        return _filling(self.values, wide.shape, level, self.dtype, Stream(self.seed).child(name))


def _steps(layout: Layout) -> Iterable[tuple[int, int]]:
    return zip(layout.shape, layout.strides, strict=True)


def _shift_of(source: Layout, output: Layout, n: int) -> Shift:
    distance = shift(source, output)
    return (0, distance // n) if n > 1 and distance in (n, -n) else (distance, 0)


def _tiled(values: NDArray[np.generic], extents: tuple[int, int]) -> NDArray[np.generic]:
    """Repeated or cut to so many rows and columns."""
    rows, columns = (np.arange(extent) % max(have, 1) for extent, have in zip(extents, values.shape, strict=True))
    return values[np.ix_(rows, columns)]


def _filling(kind: str, shape: tuple[int, ...], level: float, dtype: str, stream: Stream) -> Reals:
    if kind == "ones":
        return np.full(shape, level)
    if kind == "integers":
        return np.resize(np.arange(1.0, 8.0), shape) * level
    if kind == "zeros":
        return np.zeros(shape)
    values = stream.normal(int(np.prod(shape))).reshape(shape) * level
    if kind in _SCALES:
        scaled: Reals = np.ldexp(values, _SCALES[kind][dtype == "f16"])
        return scaled
    values[:, -1:] = {"one NaN": np.nan, "one infinity": np.inf, "spike": level * 256.0}[kind]
    return values
