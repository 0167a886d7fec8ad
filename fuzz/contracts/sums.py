"""Sums whose terms are the elements of an input, measured term by term: means, matrix products, weight gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fuzz.contracts.bench import NO_ARRAYS, Arrays, SumBench, UnmeasurableError
from fuzz.contracts.orders import Meeting, Pair, Tree, UnreadableSumError, read_tree
from fuzz.core.base.case import Case
from oracles.doubledouble import F64
from oracles.dtypes import FORMATS, form
from oracles.formula.trace import Node
from oracles.lazy import lazy
from oracles.ops import OPS

SUMS = ("sum", "dot")
_CLOSE = 0.4
"""A number of terms counts as known if the error of its measurement is smaller than this."""
_ALIKE = 1e-9
_PAIRS, _MOST_ORDERS = 8, 4
"""The number of pairs by whose answers rows are grouped, and the most groups, each with an order of its own."""


@dataclass(frozen=True)
class Carrier:
    """A sum in a formula whose terms are elements of one input times a constant, if all other inputs are 1 or 0."""

    bench: SumBench
    node: Node
    name: str
    """The name of the input whose elements are the terms."""
    factor: float
    """The constant by which elements are multiplied to give terms."""
    zeros: frozenset[str] = frozenset()
    """The names of the other inputs that are filled with 0 instead of 1."""
    telling: tuple[str, ...] = ()
    """The names of the outputs that are linear in the sum."""

    @lazy
    def places(self) -> NDArray[np.intp]:
        """Return the flat indices of the input's elements, shape `[rows, n]`: each row holds the terms of one sum."""
        trace = self.bench.trace
        shape = self.bench.floats[self.name]
        flat = self.bench.placed(self.name, np.arange(math.prod(shape)).reshape(shape))
        over = [trace.dims.index(dim) for dim in self.node.over]
        kept = [axis for axis in range(flat.ndim) if axis not in over]
        return flat.transpose(*kept, *over).reshape(-1, math.prod(flat.shape[axis] for axis in over))

    @property
    def rows(self) -> int:
        """The number of separate sums in one case."""
        return len(self.places)

    @property
    def n(self) -> int:
        """The number of terms of each sum."""
        return int(self.places.shape[1])

    @lazy
    def sizes(self) -> tuple[float, float]:
        """Return a huge number and a small one, which is lost when it is added to the huge one."""
        dtype = form(self.bench.like.inputs[self.name].dtype)
        if dtype.emax >= FORMATS["f32"].emax:
            return 2.0**80, 1.0
        return 2.0**dtype.emax, dtype.eta

    def case(self, rows: F64, more: Arrays = NO_ARRAYS) -> Case:
        """Return the case whose input has these elements, shape `[rows, n]`; `more` has the values of other inputs."""
        values = np.empty(self.places.size)
        values[self.places.reshape(-1)] = rows.reshape(-1)
        others = {name: np.full(shape, float(name not in self.zeros)) for name, shape in self.bench.floats.items()}
        return self.bench.filled({**others, **more, self.name: values.reshape(self.bench.floats[self.name])})

    def totals(self, rows: Sequence[F64]) -> list[F64]:
        """Return for each case the kernel's sums in small numbers, shape `[rows]`; NaN if no outputs agree on a sum."""
        found = list[F64]()
        for low, high in self.bounds(rows):
            with np.errstate(invalid="ignore"):
                middle = np.rint((low + high) / 2)
                sure = (np.abs(low - middle) < _CLOSE) & (np.abs(high - middle) < _CLOSE)
            found.append(np.where(sure, middle, np.nan))
        return found

    def bounds(self, rows: Sequence[F64]) -> list[tuple[F64, F64]]:
        """Return for each case the least and largest sums that its outputs show, shape `[rows]`; inf and -inf if none
        do."""
        cases = [self.case(each) for each in rows]
        return [self._read(case, got) for case, got in zip(cases, self.bench.outputs(cases), strict=True)]

    def _read(self, case: Case, got: Arrays) -> tuple[F64, F64]:
        kept = [dim for dim in self.bench.trace.dims if dim in self._dims]
        low, high = np.full(self.rows, np.inf), np.full(self.rows, -np.inf)
        nothing, full = self._ends if self._is_alone else self._ends_of(case)
        for name in self.telling:
            values = got[name]
            output = self.bench.trace.outputs[name]
            dtype = form(case.outputs[name].dtype)
            with np.errstate(all="ignore"):
                slope = (full[output] - nothing[output]) / self.n
                counts = (values - nothing[output]) / slope
                gap = np.maximum(np.maximum(np.abs(values), np.abs(nothing[output])) * dtype.u, dtype.eta / 2)
                known = np.isfinite(counts) & (gap / np.abs(slope) < _CLOSE)
            np.minimum(low, self._by_row(np.where(known, counts, np.inf), kept, np.minimum), out=low)
            np.maximum(high, self._by_row(np.where(known, counts, -np.inf), kept, np.maximum), out=high)
        return low, high

    def _ends_of(self, case: Case) -> tuple[Mapping[Node, F64], Mapping[Node, F64]]:
        """Return the values of all nodes of the formula for a sum of 0, and for one whose terms are all small."""
        return self.with_total(case, 0.0), self.with_total(case, self.factor * self.sizes[1] * self.n)

    @lazy
    def _ends(self) -> tuple[Mapping[Node, F64], Mapping[Node, F64]]:
        return self._ends_of(self.case(np.ones((self.rows, self.n))))

    @lazy
    def _is_alone(self) -> bool:
        """Whether outputs depend on the input through this sum alone, so that `_ends` of one case hold for all."""
        needed = {*self.bench.trace.outputs.values()}
        for node in reversed(self.bench.trace.nodes):
            if node in needed and node is not self.node:
                needed.update(node.args)
        return all(node.args or node.label != self.name for node in needed)

    @lazy
    def _dims(self) -> frozenset[str]:
        own = self.bench.trace.tensors[self.name]
        return frozenset(own) - {*self.node.over}

    def with_total(self, case: Case, total: float) -> Mapping[Node, F64]:
        """Return the values of all nodes of the formula if the sum is replaced by `total`."""
        return self.bench.exact(case, {(self.node, None): np.full((), total)})

    def _by_row(self, values: F64, kept: list[str], reduce: np.ufunc) -> F64:
        """Return the least or the largest value of each row, shape `[rows]`; `kept` names the dimensions of rows."""
        dims, extents = self.bench.trace.dims, self.bench.extents
        shape = [extents[dim] if dim in kept else size for dim, size in zip(dims, values.shape, strict=True)]
        others = tuple(axis for axis, dim in enumerate(dims) if dim not in kept)
        found: F64 = reduce.reduce(np.broadcast_to(values, shape), axis=others).reshape(-1)
        return found

    def _meeting(self, rows: NDArray[np.intp]) -> Meeting:
        """Return the function that `read_tree` asks: it measures a pair of terms in rows that are summed alike."""
        large, small = self.sizes

        def meeting(pairs: Sequence[Pair]) -> list[int | None]:
            found, cases = list[int | None](), list[F64]()
            for start in range(0, len(pairs), len(rows)):
                values = np.full((self.rows, self.n), small)
                for row, (one, other) in zip(rows, pairs[start : start + len(rows)], strict=False):
                    values[row, one], values[row, other] = large, -large
                cases.append(values)
            for counted in self.totals(cases):
                found += [None if math.isnan(each) else self.n - int(each) for each in counted[rows]]
            return found[: len(pairs)]

        return meeting

    def trees(self, most_runs: int) -> list[Tree]:
        """Return the orders of additions: one, unless the orders of rows differ. Raises UnmeasurableError."""
        if self.n < 2:
            raise UnmeasurableError("it has one term")
        try:
            return [
                read_tree(self.n, self._meeting(rows), most_runs * len(rows)) for rows in self._alike()[:_MOST_ORDERS]
            ]
        except UnreadableSumError as error:
            raise UnmeasurableError(str(error)) from error

    def _alike(self) -> list[NDArray[np.intp]]:
        """Return the indices of rows in groups that gave the same answers for some pairs. Raises UnmeasurableError."""
        large, small = self.sizes
        random = np.random.default_rng(0)
        rows = np.full((_PAIRS, self.n), small)
        for each in rows:
            one, other = random.choice(self.n, 2, replace=False)
            each[one], each[other] = large, -large
        answers = np.array(self.totals([np.tile(each, (self.rows, 1)) for each in rows]))
        if np.isnan(answers).any():
            raise UnmeasurableError("what is counted is no number of terms")
        _, kinds = np.unique(answers, axis=1, return_inverse=True)
        found = [np.flatnonzero(kinds.reshape(-1) == kind) for kind in range(int(kinds.max()) + 1)]
        if len(found) > _MOST_ORDERS:
            raise UnmeasurableError("rows are summed in many orders")
        return found


def carriers(bench: SumBench) -> Iterator[Carrier]:
    """Yield a carrier for each sum of the formula that has one."""
    for node in bench.trace.nodes:
        if node.kind in SUMS:
            names = [name for name in bench.floats if {*node.over} <= {*bench.trace.tensors.get(name, ())}]
            found = (_carrier(bench, node, name) for name in names if name not in OPS[bench.like.op].columns)
            if (first := next((each for each in found if each is not None), None)) is not None:
                yield first


def _carrier(bench: SumBench, node: Node, name: str) -> Carrier | None:
    """Return the carrier for a sum and an input; None if there is none. Inputs that are no factors of the terms are
    filled with zeros, since a kernel may add them to the sum first."""
    carrier = _with_factor(Carrier(bench, node, name, 1.0))
    if carrier is not None:
        for other in bench.floats:
            if other != name:
                carrier = _with_factor(replace(carrier, zeros=carrier.zeros | {other})) or carrier
    return carrier


def _with_factor(carrier: Carrier) -> Carrier | None:
    """Return the carrier with its factor and the outputs that are linear in its sum; None if no output is."""
    bench, node, random = carrier.bench, carrier.node, np.random.default_rng(0)
    rows = random.integers(1, 8, (carrier.rows, carrier.n)).astype(np.float64)
    case = carrier.case(rows)
    found = bench.exact(case)
    elements = np.empty(rows.size)
    elements[carrier.places.reshape(-1)] = rows.reshape(-1)
    terms = math.prod((found[arg] for arg in node.args), start=np.ones(()))
    with np.errstate(all="ignore"):
        ratio = terms / bench.placed(carrier.name, elements.reshape(bench.floats[carrier.name]))
    factor = float(ratio.flat[0])
    if not (math.isfinite(factor) and factor > 0 and np.allclose(ratio, factor, rtol=_ALIKE, atol=0.0)):
        return None
    carrier = replace(carrier, factor=factor)
    at = [carrier.with_total(case, factor * carrier.n * share) for share in (0.0, 0.5, 1.0)]
    telling = []
    for name, output in bench.trace.outputs.items():
        low, middle, high = (each[output] for each in at)
        with np.errstate(all="ignore"):
            grows = np.abs(high - low) > _ALIKE * np.abs(low)
            line = np.abs((high + low) / 2 - middle) <= _ALIKE * (np.abs(high) + np.abs(low))
        if grows.any() and line.all():
            telling.append(name)
    return replace(carrier, telling=tuple(telling)) if telling else None
