"""The exact value of a formula, from one interpreter that works in any of the arithmetics. Arrays have one axis for
each dimension of the trace, in the order of `Trace.dims`. If a value lacks a dimension, that axis has one element, so
that values broadcast like arrays of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, ExtendedDouble
from oracles.elementary.functions import function
from oracles.formula.exact import rigorous
from oracles.formula.exact.arithmetic import Arithmetic, Precise, Values, along, within
from oracles.formula.exact.contraction import Axes, Places, part, spans
from oracles.formula.exact.lengths import Extents, Lengths
from oracles.formula.exact.rigorous import Near, Rigorous, UncertainError
from oracles.formula.made import completed
from oracles.formula.node import CONTRACTIONS, LAST
from oracles.formula.trace import FormulaError, Node, Trace, ordered
from oracles.lazy import lazy

Order = NDArray[np.int64]


def order_of(values: Values, axis: int, *, last: bool = False) -> Order:
    """Return the places of elements along an axis, in the order from the largest element to the smallest. Of equal
    elements the first comes first, or the `last`."""
    keys = _keys(values)
    if last:  # in ascending order, seen from the other end
        return np.flip(_ascending(keys, axis), axis)
    return _ascending([-key for key in keys], axis)


def _keys(values: Values) -> list[NDArray[Any]]:
    """Return sort keys for `np.lexsort`, of which the last key counts most."""
    if isinstance(values, ExtendedDouble):
        high = values.fraction.high
        size = np.sign(high) * np.where(np.isinf(high), 2.0**60, values.exponent + 2.0**30)
        return [values.fraction.low, high, np.where(high == 0, 0.0, size)]
    if isinstance(values, DoubleDouble):
        return [values.low, values.high]
    if isinstance(values, Near):
        return [values.value]
    return [dense(values.reshape(-1).tolist()).reshape(values.shape) if values.dtype == object else values]


def dense(values: Sequence[mpmath.mpf]) -> F64:
    """Return whole numbers that have the same order as the values, and are equal where the values are. Comparing
    numbers of mpmath takes long, so that only values with the same float64 are compared."""
    rounded = np.array([float(each) for each in values])
    order = np.argsort(rounded, kind="stable")
    found, before, key = np.empty(len(values)), None, -1.0
    ends = np.flatnonzero(np.diff(rounded[order]) != 0) + 1
    for run in np.split(order, ends) if len(values) else ():
        for at in sorted(run.tolist(), key=values.__getitem__) if len(run) > 1 else run.tolist():
            key += before is None or values[at] != before
            found[at], before = key, values[at]
    return found


def _ascending(keys: list[NDArray[Any]], axis: int) -> Order:
    if len(keys) == 1:
        return np.argsort(keys[0], axis=axis, kind="stable")
    return np.lexsort(keys, axis=axis)


def ranked(arithmetic: Arithmetic, table: Values, rank: Values, axis: int) -> Values:
    """Return the elements of these ranks along an axis; without elements -inf, the maximum of nothing."""
    if not table.shape[axis]:
        return arithmetic.lift(_of_nothing(table.shape, rank.shape, axis, -np.inf))
    if isinstance(table, Near) and not isinstance(table.error, float):
        return _between(arithmetic, table, rank, axis)
    return arithmetic.take(_sorted(arithmetic, table, axis), rank, axis)


def _sorted(arithmetic: Arithmetic, table: Values, axis: int) -> Values:
    return arithmetic.take(table, arithmetic.lift(order_of(table, axis).astype(np.float64)), axis)


def _between(arithmetic: Arithmetic, table: Near, rank: Values, axis: int) -> Near:
    """Return the elements of these ranks if the table's values are known up to an error. The element of a rank lies
    between those of the same rank among all lower ends and among all upper ends."""
    ends = [Near(table.value + side * table.error * (1 + 2.0**-20)) for side in (-1.0, 0.0, 1.0)]
    low, middle, high = (arithmetic.take(_sorted(arithmetic, each, axis), rank, axis).value for each in ends)
    error = np.maximum(high - middle, middle - low) + np.abs(middle) * 2.0**-52
    return Near(middle, np.where(np.isfinite(middle) & ~np.isnan(error), error, np.nan))


def placed(arithmetic: Arithmetic, table: Values, rank: Values, axis: int, *, last: bool) -> Values:
    """Return the places of these ranks along an axis; without elements 0. Raises UncertainError if values err."""
    if not table.shape[axis]:
        return arithmetic.lift(_of_nothing(table.shape, rank.shape, axis, 0.0))
    if isinstance(table, Near) and not isinstance(table.error, float) and np.any(table.error != 0):
        raise UncertainError
    order = order_of(table, axis, last=last).astype(np.float64)
    return arithmetic.take(arithmetic.lift(order), rank, axis)


def _of_nothing(table: tuple[int, ...], rank: tuple[int, ...], axis: int, value: float) -> F64:
    shape = np.broadcast_shapes((*table[:axis], 1, *table[axis + 1 :]), rank)
    return np.full(shape, value)


Fixed = frozenset[tuple[str, int]]
"""Pairs of a dimension and a place: the formula is evaluated only at that place of the dimension."""
Replaced = Mapping[tuple[Node, int | None], F64]
"""Values that replace the argument of a node at that index, or the node's own value (None). NaN replaces nothing."""
NOTHING: Replaced = MappingProxyType({})

_REMEMBERED = 1 << 16
"""The number of values that `Exact` keeps, at most, to reuse them for other elements of the same problem."""
_WHOLE: Fixed = frozenset()
_WINDOW = 16
"""An index that takes at most this many places of a table needs only those places of the table to be calculated."""
_AT_ONCE = 16
"""How many times longer all elements take one by one than in one array, if calls of NumPy take most of the time."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a formula's evaluation: tensors, parameters and extents."""

    trace: Trace
    tensors: Mapping[str, NDArray[Any]]
    """The tensors by name. Each has an axis for each of its dimensions, in the tensor's own order of them."""
    parameters: Mapping[str, float | F64]
    """The parameters by name: numbers, or for joined problems columns with one element for each row or problem."""
    lengths: Lengths | Extents | None = None
    """The lengths of rows, or the extents of problems, before they were filled up to the longest; None if none was."""

    @lazy
    def extents(self) -> Mapping[str, int]:
        """Return the number of elements along each dimension. Raises FormulaError if tensors disagree about one."""
        found: dict[str, int] = {}
        for name, dims in self.trace.tensors.items():
            shape = self.tensors[name].shape
            if len(shape) != len(dims):
                raise FormulaError(f"{name}: it has {len(shape)} axes for the dimensions {', '.join(dims)}")
            for dim, size in zip(dims, shape, strict=True):
                if found.setdefault(dim, size) != size:
                    raise FormulaError(f"{name}: {size} along {dim!r}, where another tensor has {found[dim]}")
        if not self.trace.counts:
            return found
        whole = completed(self.trace.counts, {dim: size for dim, size in found.items() if dim not in self.trace.counts})
        if wrong := [dim for dim in whole if whole[dim] != found.get(dim, whole[dim])]:
            raise FormulaError(
                f"{wrong[0]!r} is {found[wrong[0]]} long, where {whole[wrong[0]]} follow from the others"
            )
        return {dim: whole[dim] for dim in self.trace.dims}

    @property
    def integers(self) -> frozenset[str]:
        """The names of the tensors whose dtype is an integer or bool."""
        return frozenset(name for name, tensor in self.tensors.items() if tensor.dtype.kind in "biu")

    def axes(self, node: Node) -> Axes:
        """Return the axes that a node reduces or takes from."""
        if strange := [dim for dim in node.over if dim not in self.trace.dims]:
            raise FormulaError(f"{strange[0]!r} is no dimension of what is returned")
        return tuple(map(self.trace.dims.index, node.over))

    def number(self, node: Node) -> int:
        """Return the number of terms of a node's reduction; for joined problems, of the longest one."""
        return math.prod(self.extents[dim] for dim in node.over)

    def count(self, axes: Axes) -> int | F64:
        """Return the number of places along axes; if rows were filled up, an array with the number of each row."""
        dims, lengths = [self.trace.dims[axis] for axis in axes], self.lengths
        return math.prod(self.extents[dim] if lengths is None else lengths.count(dim) for dim in dims)

    def total(self, values: NDArray[Any], axes: Axes) -> NDArray[Any]:
        """Return the sum along axes of the elements that are not filled up, added in the same order as without any."""
        for axis in axes:
            values = self.lengths.total(values, axis) if self.lengths else values.sum(axis=axis, keepdims=True)
        return values

    def is_filled(self, axes: Axes) -> bool:
        """Whether rows or problems have several lengths along one of the axes, and were filled up to the longest."""
        return self.lengths is not None and any(self.lengths.is_filled(self.trace.dims[axis]) for axis in axes)

    def own_places(self, index: Values, axes: Axes, arithmetic: Arithmetic) -> Values:
        """Return the index, with -1 where it points behind the end of its own row, to an element that was filled up."""
        if not self.is_filled(axes):
            return index
        own = arithmetic.compare("less", index, arithmetic.lift(np.asarray(self.count(axes))))
        return arithmetic.where(own, index, arithmetic.lift(np.full(self._single, -1.0)))

    def filled_up(self, values: Values, axes: Axes, arithmetic: Arithmetic) -> Values:
        """Return the values, with each filled-up element behind the end of a row or problem replaced by the last one
        before."""
        if not self.is_filled(axes):
            return values
        places = np.arange(values.shape[axes[0]], dtype=np.float64)
        places = places.reshape([-1 if at == axes[0] else 1 for at in range(len(self._single))])
        last = arithmetic.lift(np.minimum(places, self.count(axes) - 1))
        return arithmetic.take(values, last, axes[0])

    @property
    def _single(self) -> tuple[int, ...]:
        return (1,) * len(self.trace.dims)

    def spans(self, shape: tuple[int, ...], axes: Axes) -> Sequence[Places]:
        """Return slices that split an array along axes into parts of about `AT_ONCE` elements. If rows were filled up,
        there is one slice for all of them."""
        return [(slice(None),) * len(axes)] if self.is_filled(axes) else spans(shape, axes)

    def leaf(self, node: Node, fixed: Fixed = frozenset()) -> F64:
        """Return the exact values of a node without arguments, at the `fixed` places."""
        if node.kind == "tensor":
            dims, order = self.trace.tensors[node.label], self.trace.orders[node.label]
            values = self.tensors[node.label].transpose(order)
            if fixed:
                looked_at: tuple[Any, ...] = (*(_looked_at(dims[place], fixed) for place in order), ...)
                values = values[looked_at]
            return self._placed(node, values if values.dtype == object else values.astype(np.float64))
        if node.kind == "position":
            places = np.arange(self.extents[node.label], dtype=np.float64)
            found = self._placed(node, places[_looked_at(node.label, fixed)])
            return np.minimum(found, self.count(axes) - 1) if self.is_filled(axes := self.axes(node)) else found
        value: float | F64 = node.value
        if node.kind == "parameter":
            value = self.parameters[node.label]
        if node.kind == "extent":
            value = np.asarray(self.count(self.axes(node)), dtype=np.float64)
        if isinstance(value, np.ndarray) and value.ndim:
            return value
        return np.full((1,) * len(self.trace.dims), value)

    def _placed(self, node: Node, values: NDArray[Any]) -> NDArray[Any]:
        if values.ndim == len(self.trace.dims):
            return values
        sizes = iter(values.shape)
        return values.reshape([next(sizes) if dim in node.dims else 1 for dim in self.trace.dims])


def _looked_at(dim: str, fixed: Fixed) -> slice:
    at = dict(fixed).get(dim)
    return slice(None) if at is None else slice(at, at + 1)


def step(node: Node, args: list[Values], arithmetic: Arithmetic, inputs: Inputs) -> Values:
    """Return the value of a node, calculated from the values of its arguments."""
    kind = node.kind
    if kind in ("add", "subtract", "multiply", "divide"):
        return arithmetic.operate(kind, args[0], args[1])
    if kind == "negate":
        return -args[0]
    if kind == "point":
        return args[0]
    if kind == "function":
        return arithmetic.apply(node.function, args[0])
    if kind == "pair":
        from oracles.formula.exact.paired import paired  # loaded only if a formula has one

        return paired(node, args, arithmetic, lambda each, given: step(each, given, arithmetic, inputs))
    if kind == "sum":
        return along(arithmetic.total, args[0], inputs.axes(node))
    if kind == "max":
        return along(arithmetic.greatest, args[0], inputs.axes(node))
    if kind in CONTRACTIONS:
        return arithmetic.dot(args[0], args[1], inputs.axes(node))
    if kind == "online":
        axes = inputs.axes(node)
        shifted = arithmetic.operate("subtract", args[0], along(arithmetic.greatest, args[0], axes))
        return along(arithmetic.total, arithmetic.apply(function("exp"), shifted), axes)
    if kind in ("welford_mean", "welford_squares"):
        axes, (terms,) = inputs.axes(node), args
        count = arithmetic.lift(np.full((1,) * len(inputs.trace.dims), float(inputs.number(node))))
        mean = arithmetic.operate("divide", along(arithmetic.total, terms, axes), count)
        away = arithmetic.operate("subtract", terms, mean)
        squares = arithmetic.operate("multiply", away, away)
        return mean if kind == "welford_mean" else along(arithmetic.total, squares, axes)
    if kind == "where":
        return arithmetic.where(*args)
    if kind == "take":
        axes = inputs.axes(node)
        return arithmetic.take(args[0], inputs.own_places(args[1], axes, arithmetic), *axes, *args[2:])
    if kind == "scan":
        axes = inputs.axes(node)
        return inputs.filled_up(recurred(arithmetic, args, axes[0], inputs.extents[node.label]), axes, arithmetic)
    if kind == "ranked":
        return ranked(arithmetic, *args, *inputs.axes(node))
    if kind == "place":
        return placed(arithmetic, *args, *inputs.axes(node), last=node.value == LAST)
    if kind in ("at_most", "less"):
        return arithmetic.compare(kind, args[0], args[1])
    raise FormulaError(f"{kind}: no arithmetic knows it")


def _lifted(node: Node, values: NDArray[Any], arithmetic: Arithmetic) -> Values:
    lifted = arithmetic.lift(values)
    return lifted + arithmetic.lift(np.full(values.shape, node.low)) if node.low else lifted


def evaluate(inputs: Inputs, arithmetic: Arithmetic, replaced: Replaced = NOTHING) -> Mapping[Node, Values]:
    """Return the values of all nodes, with `replaced` values in their place."""
    found: dict[Node, Values] = {}
    changed = {node for node, _ in replaced}

    def value(node: Node, place: int | None, values: Values) -> Values:
        new = replaced.get((node, place))
        return values if new is None else arithmetic.where(np.isnan(new), values, arithmetic.lift(new))

    with np.errstate(all="ignore"):
        for node in inputs.trace.nodes:
            if not node.args:
                found[node] = _lifted(node, inputs.leaf(node), arithmetic)
            else:
                args = [found[arg] for arg in node.args]
                if node in changed:
                    args = [value(node, place, arg) for place, arg in enumerate(args)]
                    found[node] = value(node, None, step(node, args, arithmetic, inputs))
                else:
                    found[node] = step(node, args, arithmetic, inputs)
    return found


def elements(
    inputs: Inputs,
    arithmetic: Precise,
    output: Node,
    place: Mapping[str, int],
    replaced: Replaced,
    known: dict[tuple[Node, Fixed], Values],
) -> Values:
    """Return, in mpmath, all elements of the output that have these places along the dimensions in `place`. Only the
    values that they depend on are evaluated; `known` keeps those for other elements at the same precision."""

    def value(node: Node, fixed: Fixed) -> Values:
        fixed = frozenset((dim, at) for dim, at in fixed if dim in node.dims)
        if (node, fixed) not in known:
            known[node, fixed] = other(node, None, fixed, lambda: calculated(node, fixed))
        return known[node, fixed]

    def calculated(node: Node, fixed: Fixed) -> Values:
        if not node.args:
            return _lifted(node, inputs.leaf(node, fixed), arithmetic)
        if node.kind == "take":
            return taken(node, fixed)
        if node.kind == "scan" and (place := dict(fixed).get(node.label)) is not None:
            whole = value(node, frozenset(each for each in fixed if each[0] != node.label))
            return at_place(whole, inputs.axes(node)[0], place)
        if node.kind in ("ranked", "place"):  # the rank may have the selection's own dimension
            mine = frozenset(each for each in fixed if each[0] != node.label)
            looked_at = zip(node.args, (mine, fixed), strict=True)
            args = [other(node, place, some, partial(value, arg, some)) for place, (arg, some) in enumerate(looked_at)]
            return step(node, args, arithmetic, inputs)
        # The node lacks the dimensions that it reduces, so that they are fixed in no argument.
        args = [other(node, place, fixed, partial(value, arg, fixed)) for place, arg in enumerate(node.args)]
        if node.kind == "pair":
            from oracles.formula.exact.paired import with_sign

            leaf = partial(inputs.leaf, fixed=fixed)
            args = [with_sign(arg, each, leaf) for arg, each in zip(node.args, args, strict=True)]
        return step(node, args, arithmetic, inputs)

    def taken(node: Node, fixed: Fixed) -> Values:
        """Return the elements that a node takes from a table. If they are few, such as those of a window, no other
        elements of the table are calculated."""
        table, index, *outside = node.args
        (axis,), (dim,) = inputs.axes(node), node.over
        at = other(node, 1, fixed, partial(value, index, fixed))
        known = within(at, inputs.extents[dim])
        needed = np.unique(at[known].astype(np.int64))
        mine = frozenset(each for each in fixed if each[0] != dim)  # an index may have the table's dimension
        if not 0 < len(needed) <= min(_WINDOW, inputs.extents[dim] - 1):
            whole = other(node, 0, mine, partial(value, table, mine))
            return step(node, [whole, at, *(value(each, fixed) for each in outside)], arithmetic, inputs)
        each = (mine | {(dim, int(place))} for place in needed)
        parts = [other(node, 0, some, partial(value, table, some)) for some in each]
        places = np.where(known, np.searchsorted(needed, np.where(known, at, 0).astype(np.int64)), -1)
        some = [np.concatenate(parts, axis), places, *(value(each, fixed) for each in outside)]
        return step(node, some, arithmetic, inputs)

    def other(node: Node, place: int | None, fixed: Fixed, own: Callable[[], Values]) -> Values:
        new = replaced.get((node, place))
        if new is None:
            return own()
        looked_at = (_looked_at(dim, fixed) if new.shape[at] > 1 else slice(None) for at, dim in enumerate(dims))
        new = new[tuple(looked_at)]
        missing = np.isnan(new)
        if not missing.any():
            return arithmetic.lift(new)
        return arithmetic.where(missing, own(), arithmetic.lift(np.where(missing, 0.0, new)))

    dims = inputs.trace.dims
    return value(output, frozenset(place.items()))


@dataclass(frozen=True, eq=False)
class Exact:
    """Exact values of single elements in mpmath. Values that several elements depend on are calculated once."""

    inputs: Inputs
    replaced: Replaced = field(default_factory=dict)
    _known: dict[int, dict[tuple[Node, Fixed], Any]] = field(default_factory=dict)
    _arithmetics: dict[int, Precise] = field(default_factory=dict)
    _asked: dict[tuple[Node, int], int] = field(default_factory=dict)
    """The number of elements that were asked for, by node and working precision."""
    _most: dict[Node, int] = field(default_factory=dict)
    wide: dict[tuple[Node, ...], Mapping[Node, Any]] = field(default_factory=dict)
    """The values of formulas in double-double, by their outputs, which contracts that replace no value share."""

    def element(self, node: Node, place: Mapping[str, int]) -> mpmath.mpf:
        """Return one element of a node, at the current working precision."""
        key = node, mpmath.mp.prec
        known = self._known.setdefault(mpmath.mp.prec, {})
        arithmetic = self._arithmetics.setdefault(mpmath.mp.prec, Precise())
        if (whole := known.get((node, _WHOLE))) is not None:
            return whole[tuple(place.get(dim, 0) if dim in node.dims else 0 for dim in self.inputs.trace.dims)]
        if len(known) > _REMEMBERED:
            known.clear()
        at = {dim: at for dim, at in place.items() if dim in node.dims}
        self._asked[key] = self._asked.get(key, 0) + 1
        extents = (self.inputs.extents[dim] for dim in at)
        if self._asked[key] * _AT_ONCE > math.prod(extents) and self._terms(node) <= _REMEMBERED:
            values = elements(self.inputs, arithmetic, node, {}, self.replaced, known)
            return values[tuple(at.get(dim, 0) for dim in self.inputs.trace.dims)]
        return elements(self.inputs, arithmetic, node, at, self.replaced, known).item()

    @property
    def vanished(self) -> bool:
        """Whether a zero among the values so far may be another number at a higher working precision; see `Precise`."""
        arithmetic = self._arithmetics.get(mpmath.mp.prec)
        return arithmetic is not None and arithmetic.vanished

    def _terms(self, node: Node) -> int:
        """Return the number of elements of the largest array that a node's elements need, counting terms of sums."""
        if node not in self._most:
            steps = (each.dims.union(*(arg.dims for arg in each.args)) for each in ordered([node]))
            self._most[node] = max(math.prod(self.inputs.extents[dim] for dim in dims) for dims in steps)
        return self._most[node]


def recurred(arithmetic: Arithmetic, args: Sequence[Values], axis: int, count: int) -> Values:
    """Return h(t) = a(t) h(t - 1) + b(t) at all `count` places along an axis. `args` are a, b and h(-1)."""
    a, b, h = args
    if count and isinstance(arithmetic, Rigorous):
        return rigorous.recurred(a, b, h, axis, count)
    found = list[Any]()
    for place in range(count):
        each, more = (at_place(values, axis, place) for values in (a, b))
        h = arithmetic.operate("add", arithmetic.operate("multiply", each, h), more)
        found.append(h)
    if not found:  # no elements: the result broadcasts a, b and h along the other axes
        return at_place(arithmetic.operate("add", arithmetic.operate("multiply", a, h), b), axis, slice(0, 0))
    return arithmetic.joined(found, axis)


def at_place(values: Any, axis: int, place: int | slice) -> Any:
    """Return the values at one place, or a slice of places, along an axis; all values if the axis has one element."""
    return part(values, (axis,), (place if isinstance(place, slice) else slice(place, place + 1),))
