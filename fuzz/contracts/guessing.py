"""Guessing the order of sums whose terms are not elements of an input but their squares or exponentials, so that no
term is the negative of another.

One term of each sum is so large that each of some small ones is lost when it is added to it. So the sum says how many
of them were added to it one by one. The outputs that each known order of additions would give are calculated, and the
orders that match what the kernel returns remain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from fuzz.contracts.bench import Arrays, SumBench, UnmeasurableError
from fuzz.contracts.orders import Tree, known
from fuzz.contracts.sums import SUMS
from fuzz.core.base.case import Case
from oracles.doubledouble import F64
from oracles.dtypes import SINGLE, form
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, step
from oracles.formula.trace import Node
from oracles.lazy import lazy
from oracles.ops import OPS

_LARGE = 2.0**24
"""Added to this, in float32, one small term is lost and two together are not."""
_SMALL = 49 / 64
_NEAR = 8 * SINGLE.u
"""The relative error up to which outputs match an order's sum and result: kernels round elsewhere too."""
_NOTHING = 0.01
"""A smaller share of a term counts as nothing."""
_OFF = 2.0**-8
"""An error of all results of a kernel up to which its order is still recognised."""
_APART = 3.0
"""The outputs of a plain loop must be this many times as far from those of another order, else nothing can be seen."""
_AS_NEAR = 0.1
_WORK = 1 << 19
_ROWS = 48
"""The number of sums that are looked at."""
AGAIN = 2
"""The factor by which a chain that follows from such a guess is lengthened, for safety."""


@dataclass(frozen=True)
class _Elements:
    """Elements that make the large terms, the small ones, and zeros."""

    large: float
    small: float
    nothing: float = 0.0
    balanced: bool = False
    """Whether their mean is about 0: two are large, and half of the others have the other sign."""


_ELEMENTS = (
    _Elements(_LARGE, _SMALL), _Elements(2.0**12, 7 / 8), _Elements(2.0**12, 7 / 8, balanced=True),
    _Elements(0.0, -16.902, -200.0),
)  # fmt: skip
"""Elements for sums of elements, of squares, of squares minus a mean, and of exponentials below the largest."""


@dataclass(frozen=True)
class Guess:
    """The possible orders of sums over the same dimensions."""

    node: Node
    """The sum with the large term."""
    trees: Sequence[Tree]
    """The orders that fit, the nearest first; none if the kernel has another."""
    near: Sequence[Tree]
    """The orders that fit about as well as the nearest."""

    @property
    def chain(self) -> int:
        """The largest length that its longest chain may have."""
        return min(AGAIN * max(each.chain for each in self.trees), self.trees[0].n - 1)


def guesses(bench: SumBench, along: str, nodes: Sequence[Node]) -> Iterator[Guess]:
    """Yield what is seen of the sums along dimensions, for each node of which anything is."""
    inputs = [
        name
        for name in bench.floats
        if {*along.split()} <= {*bench.trace.tensors.get(name, ())} and name not in OPS[bench.like.op].columns
    ]
    left = [*nodes]
    for name in inputs:
        # Whatever may be added to its elements must be zero once.
        alike = frozenset(other for other in bench.floats if other != name and bench.is_like(name, other))
        for elements, zeros in product(_ELEMENTS, dict.fromkeys((frozenset[str](), alike))):
            for node in [*left]:
                guessing = _Guessing(bench, along, name, elements, zeros, node)
                if guessing.swamps and (guess := guessing.guess()) is not None:
                    left.remove(node)
                    yield guess


@dataclass(frozen=True)
class _Guessing:
    bench: SumBench
    along: str
    name: str
    elements: _Elements
    zeros: frozenset[str]
    """The other inputs that are zero instead of 1."""
    node: Node

    @lazy
    def cases(self) -> Sequence[Case]:
        """Return cases in which each row has one large term, and small ones at some or all other places."""
        bench, random = self.bench, np.random.default_rng(0)
        elements = self.elements
        shape, found = bench.floats[self.name], list[Case]()
        axes = [bench.trace.dims.index(dim) for dim in self.along.split()]
        flat = bench.placed(self.name, np.arange(int(np.prod(shape))).reshape(shape))
        flat = np.moveaxis(flat, axes, [*range(-len(axes), 0)])
        places = flat.reshape(-1, int(np.prod(flat.shape[-len(axes) :])))
        rows, n = places.shape
        for _ in range(max(1, -(-_ROWS // rows))):
            share = random.choice([0.5, 1.0], (rows, 1))
            is_small = random.random((rows, n)) < share
            values = np.where(is_small, elements.small, elements.nothing)
            at = np.arange(rows)
            # A plain loop loses most if the large term is at its beginning.
            early, anywhere = random.integers(0, 1 + n // 16, rows), random.integers(0, n, rows)
            first = np.where(random.random(rows) < 0.5, anywhere, early)
            if elements.balanced:
                values = np.where(np.cumsum(is_small, -1) % 2 == 0, -values, values)
                values[at, (first + random.integers(1, max(2, n), rows)) % n] = -elements.large
            values[at, first] = elements.large
            own = np.empty(places.size)
            own[places.reshape(-1)] = values.reshape(-1)
            others = {name: np.full(each, float(name not in self.zeros)) for name, each in bench.floats.items()}
            found.append(bench.filled({**others, self.name: own.reshape(shape)}))
        return found

    @lazy
    def swamps(self) -> bool:
        """Whether the terms of the node are as large as they should be, in each row."""
        values = self.bench.exact(self.cases[0])
        terms = np.ones(())
        for arg in self.node.args:
            terms = terms * values[arg]
        largest = np.max(terms, axis=self._axes, keepdims=True)
        with np.errstate(all="ignore"):
            shares = terms / largest * _LARGE
        small = shares[(shares < _LARGE / 2) & (shares > _NOTHING)]
        fit = np.isfinite(shares).all() and (terms >= 0).all() and small.size
        return bool(fit and np.allclose(small, _SMALL, rtol=0.1))

    def guess(self) -> Guess | None:
        """Return the guess; None if a plain loop would hardly show."""
        bench = self.bench
        if any(form(each.dtype) is not SINGLE for each in bench.like.outputs.values()):
            return None
        got = bench.outputs(self.cases)
        n = bench.number(self.node)
        if math.prod(bench.extents.values()) * len(self.cases) > _WORK:
            raise UnmeasurableError("there are too many terms to guess at")
        expected = {tree: self._predicted(tree) for tree in known(n)}
        plain, *others = expected.values()
        if not any(self._distance(each, plain) > _APART for each in others):
            return None
        far = {tree: self._distance(_scaled(got, each), each) for tree, each in expected.items()}
        fitting = sorted((tree for tree in far if far[tree] <= 1.0), key=lambda tree: far[tree])
        return Guess(self.node, fitting, [tree for tree in fitting if far[tree] <= _AS_NEAR + _APART * far[fitting[0]]])

    def _predicted(self, tree: Tree) -> Sequence[Arrays]:
        """Return the outputs of a kernel with that order."""
        inputs, found = self._inputs, [dict[Node, F64]() for _ in self.cases]
        arithmetic = Float64()
        with np.errstate(all="ignore"):
            for node in self.bench.trace.nodes:
                if node.kind in SUMS and node.label == self.along:
                    # All cases at once, so that each addition is one call.
                    terms = np.stack([self._lined(node, each) for each in found])
                    for each, total in zip(found, tree.total(terms), strict=True):
                        each[node] = np.expand_dims(total, self._axes)
                    continue
                for each, given in zip(found, inputs, strict=True):
                    args = [each[arg] for arg in node.args]
                    each[node] = step(node, args, arithmetic, given) if args else given.leaf(node)
        return [{name: each[node] for name, node in self.bench.trace.outputs.items()} for each in found]

    @lazy
    def _inputs(self) -> Sequence[Inputs]:
        return [self.bench.inputs(case) for case in self.cases]

    @lazy
    def _axes(self) -> tuple[int, ...]:
        return tuple(self.bench.trace.dims.index(dim) for dim in self.along.split())

    def _lined(self, node: Node, values: Mapping[Node, F64]) -> F64:
        """Return the terms of a sum as the last axis."""
        terms = math.prod((values[arg] for arg in node.args), start=np.ones(()))
        extents, dims = self.bench.extents, self.bench.trace.dims
        kept = [axis for axis in range(terms.ndim) if axis not in self._axes]
        wide = [extents[dims[axis]] if axis in self._axes else terms.shape[axis] for axis in range(terms.ndim)]
        lined = np.broadcast_to(terms, wide).transpose(*kept, *self._axes)
        return lined.reshape(*lined.shape[: len(kept)], -1)

    def _distance(self, one: Sequence[Arrays], other: Sequence[Arrays]) -> float:
        """Return the largest distance between outputs, relative to what other roundings may cause."""
        worst = 0.0
        for first, second, allowed in zip(one, other, self._allowed, strict=True):
            for name, values in second.items():
                with np.errstate(all="ignore"):
                    share = np.abs(first[name] - values) / allowed[name]
                worst = max(worst, float(np.nanmax(share, initial=0.0)))
        return worst

    @lazy
    def _allowed(self) -> Sequence[Arrays]:
        found = list[Arrays]()
        for case in self.cases:
            values = self.bench.exact(case)
            moved = self.bench.exact(case, {(self.node, None): values[self.node] * (1.0 + _NEAR)})
            each = dict[str, F64]()
            for name, node in self.bench.trace.outputs.items():
                axes = tuple(self.bench.trace.dims.index(dim) for dim in self.along.split() if dim in node.dims)
                size = np.maximum(np.abs(values[node]), np.median(np.abs(values[node]), axis=axes, keepdims=True))
                with np.errstate(all="ignore"):  # a mask leaves infinities
                    each[name] = np.abs(moved[node] - values[node]) + _NEAR * size + SINGLE.tiny
            found.append(each)
        return found


def _scaled(got: Sequence[Arrays], expected: Sequence[Arrays]) -> Sequence[Arrays]:
    """Return the outputs without a factor that they all have, so that only errors of the order are left."""
    factors = dict[str, float]()
    for name in got[0]:
        with np.errstate(all="ignore"):
            # Over all rows together: within one row, another order looks like a factor.
            ratios = np.concatenate(
                [(one[name] / two[name]).reshape(-1) for one, two in zip(got, expected, strict=True)]
            )
        known = ratios[np.isfinite(ratios)]
        factor = float(np.median(known)) if known.size else 1.0
        factors[name] = factor if abs(factor - 1.0) < _OFF else 1.0
    return [{name: values / factors[name] for name, values in each.items()} for each in got]
