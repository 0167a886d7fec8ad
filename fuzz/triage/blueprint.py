"""Blueprints: a failing case as something that can be built again with one thing changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fuzz.case import Case, CaseError, Guard, Layout, Origin, Output, Tensor
from fuzz.generate.formats import from_bits, quantise
from fuzz.generate.layouts import OVERLAPPING, lay_out
from fuzz.generate.stream import Reals, Stream
from fuzz.op import OPS
from fuzz.triage.reduction import Frame
from fuzz.triage.traits import layout_class

BASE = "base"
"""the values of the case itself, repeated or cut."""
_SCALES: Mapping[str, tuple[int, int]] = {"normal": (0, 0), "large": (30, 6), "tiny": (-30, -6)}
"""powers of two by which normal values are scaled, in wide and in 16-bit dtypes."""
VALUES = (BASE, "ones", "integers", *_SCALES, "zeros", "one NaN", "one infinity", "spike")


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

    @classmethod
    def of(cls, case: Case) -> Blueprint:
        """The blueprint of a case; what it builds may lie elsewhere than the case itself."""
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
            aliases=frozenset((name, o.alias) for name, o in case.outputs.items() if o.alias is not None),
            steps={name: step for name, step in single.items() if step != 1},
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """All rows along the first axis that is not normalised."""
        others = [self.rows, *[1] * (self.rank - 2)][: self.rank - 1]
        return (*others[: self.axis], self.n, *others[self.axis :])

    def build(self) -> Case:
        """The case. Raises CaseError where the parts contradict each other."""
        op, base = OPS[self.base.op], self.base
        if self.rank == 1 and self.rows != 1:
            raise CaseError("x: a tensor of rank 1 is one row")
        inputs: dict[str, Tensor] = {}
        for name, tensor in base.inputs.items():
            if name not in self.dropped:
                layout = self._layout(name, op.shape(name, self.shape, self.axis), is_input=True)
                inputs[name] = Tensor(self._dtype(name, tensor.dtype), layout, self._bits(name, tensor, layout))
        outputs = {}
        aliases = dict(self.aliases)
        for name, output in base.outputs.items():
            if name in self.dropped:
                continue
            source = inputs.get(aliases.get(name, ""))
            if source is not None:
                outputs[name] = Output(source.dtype, source.layout, aliases[name])
            else:
                layout = self._layout(name, op.shape(name, self.shape, self.axis), is_input=False)
                outputs[name] = Output(self._dtype(name, output.dtype), layout)
        params = {**base.params, "axis": self.axis, **({"eps": self.eps} if "eps" in base.params else {})}
        return Case(base.op, params, inputs, outputs, self._structured, Origin(self.values, "varied"))

    @property
    def _structured(self) -> bool:
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
        if name not in self.layouts or (not is_input and wanted in OVERLAPPING):
            wanted = "contiguous"
        if name in self.steps and len(shape) == 1:
            return Layout(shape, (self.steps[name],), self.guard, self.offset)
        axis = self.axis if name in self.layouts else 0
        return lay_out(wanted, shape, axis, 1, self.guard, self.offset) if shape else Layout((), (), self.guard)

    def _bits(self, name: str, tensor: Tensor, layout: Layout) -> bytes:
        role = self._frame.role(name)
        values = _tiled(self._matrix(name, tensor, role), self._extents(role))
        if role == "grid":
            values = self._filled(name, values)
            # Where elements share memory they must have one value.
            if layout.size and 0 in layout.strides:
                shared = layout.strides[self.axis] == 0
                values = np.broadcast_to(values[:, :1] if shared else values[:1], values.shape)
            outer = (*layout.shape[: self.axis], *layout.shape[self.axis + 1 :])
            values = np.moveaxis(values.reshape(*outer, self.n), -1, self.axis)
        dtype = self._dtype(name, tensor.dtype)
        kept = self.values == BASE and tensor.dtype == dtype
        if name in self.ones:
            values, kept = np.ones(values.shape), False
        stored = values if kept else quantise(values.astype(np.float64), dtype)
        return np.ascontiguousarray(stored).tobytes()

    def _extents(self, role: str) -> tuple[int, int]:
        return {"grid": (self.rows, self.n), "columns": (1, self.n), "rows": (self.rows, 1)}[role]

    def _matrix(self, name: str, tensor: Tensor, role: str) -> NDArray[np.generic]:
        values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape)
        if role == "grid":
            values = np.moveaxis(values, self._frame.axis, -1)
        rows, columns = {"grid": (-1, self._frame.n), "columns": (1, -1), "rows": (-1, 1)}[role]
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
