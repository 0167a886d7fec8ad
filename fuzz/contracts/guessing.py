"""Guessing the order of sums whose terms are the squares or exponentials of elements. No such term is the negative of
another, so `orders` cannot read their order.

One term of each sum is so large that a small term that is added to it alone is lost. So the total shows how many small
terms were added to the large one one by one. Of all known orders of additions, those with the kernel's outputs remain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from fuzz.contracts.bench import SUMS, Arrays, SumBench, UnmeasurableError
from fuzz.contracts.orders import Tree, known
from fuzz.core.base.case import Case
from oracles.doubledouble import F64
from oracles.dtypes import SINGLE, form
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, step
from oracles.formula.trace import Node
from oracles.lazy import lazy
from oracles.ops import OPS

_LARGE = 2.0**24
"""The large term: in float32, adding one small term to it changes nothing, and adding two together does."""
_SMALL = 49 / 64
_NEAR = 8 * SINGLE.u
"""The relative difference up to which outputs match those of an order. Kernels round in other places too."""
_NOTHING = 0.01
"""A term smaller than this counts as zero."""
_OFF = 2.0**-8
"""The largest common relative error of all outputs of a kernel whose order is still recognised."""
_APART = 3.0
"""The outputs of a plain loop and of another order must differ by this many times `_allowed`, else no guess is made."""
_AS_NEAR = 0.1
_WORK = 1 << 19
_ROWS = 48
"""The least number of sums whose order is guessed at once."""
AGAIN = 2
"""The factor by which the chain of a guessed order is lengthened, since another order may match too."""


@dataclass(frozen=True)
class _Elements:
    """The elements of an input that make large terms, small terms and zeros."""

    large: float
    small: float
    nothing: float = 0.0
    balanced: bool = False
    """Whether the mean of the elements is about 0. Then two elements are large, with opposite signs, and half of the
    small ones have the opposite sign."""


_ELEMENTS = (
    _Elements(_LARGE, _SMALL), _Elements(2.0**12, 7 / 8), _Elements(2.0**12, 7 / 8, balanced=True),
    _Elements(0.0, -16.902, -200.0),
)  # fmt: skip
"""Elements for sums of elements, of squares, of squares of centred elements, and of exponentials below the largest."""


@dataclass(frozen=True)
class Guess:
    """The orders that the sum at a node may have."""

    node: Node
    """The node of the formula that is the sum."""
    trees: Sequence[Tree]
    """The known orders that match the kernel's outputs, the nearest first; none if the kernel has another order."""
    near: Sequence[Tree]
    """The orders that match about as well as the nearest."""

    @property
    def chain(self) -> int:
        """The longest chain of additions to allow: twice that of the matching orders, at most that of a plain loop."""
        return min(AGAIN * max(each.chain for each in self.trees), self.trees[0].n - 1)


def guesses(bench: SumBench, along: str, nodes: Sequence[Node]) -> Iterator[Guess]:
    """Yield a guess for each of these sums along some dimensions, if its terms can be made large and small."""
    inputs = [
        name
        for name in bench.floats
        if {*along.split()} <= {*bench.trace.tensors.get(name, ())} and name not in OPS[bench.like.op].columns
    ]
    left, dims = [*nodes], bench.trace.tensors
    for name in inputs:
        # An input of the same shape may be added to this one: then the small and large terms need zeros in it.
        alike = frozenset(other for other in bench.floats if other != name and dims[other] == dims[name])
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
    """The names of the other inputs that are filled with 0 instead of 1."""
    node: Node

    @lazy
    def cases(self) -> Sequence[Case]:
        """Return cases in which each row has one large term, and small terms at all, or half, of the other places."""
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
        """Whether the largest term of each row exceeds the small terms by as much as intended."""
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
        """Return the guess; None if the outputs of known orders hardly differ."""
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
        """Return the outputs of each case if a kernel adds terms in the order of a tree."""
        inputs, found = self._inputs, [dict[Node, F64]() for _ in self.cases]
        arithmetic = Float64()
        with np.errstate(all="ignore"):
            for node in self.bench.trace.nodes:
                if node.kind in SUMS and node.label == self.along:
                    # The terms of all cases together, so that each addition is one call of NumPy.
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
        """Return the terms of a sum with its dimensions as the last axis."""
        terms = math.prod((values[arg] for arg in node.args), start=np.ones(()))
        extents, dims = self.bench.extents, self.bench.trace.dims
        kept = [axis for axis in range(terms.ndim) if axis not in self._axes]
        wide = [extents[dims[axis]] if axis in self._axes else terms.shape[axis] for axis in range(terms.ndim)]
        lined = np.broadcast_to(terms, wide).transpose(*kept, *self._axes)
        return lined.reshape(*lined.shape[: len(kept)], -1)

    def _distance(self, one: Sequence[Arrays], other: Sequence[Arrays]) -> float:
        """Return the largest difference between outputs, as a multiple of what other roundings may cause."""
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
    """Return the outputs divided by the factor by which all are off, so that only the errors of the order are left."""
    factors = dict[str, float]()
    for name in got[0]:
        with np.errstate(all="ignore"):
            # The factor is found over all rows together: within one row, another order looks like a factor.
            ratios = np.concatenate(
                [(one[name] / two[name]).reshape(-1) for one, two in zip(got, expected, strict=True)]
            )
        known = ratios[np.isfinite(ratios)]
        factor = float(np.median(known)) if known.size else 1.0
        factors[name] = factor if abs(factor - 1.0) < _OFF else 1.0
    return [{name: values / factors[name] for name, values in each.items()} for each in got]
