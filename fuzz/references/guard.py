"""Whether a formula is the reference: both in float64, at three sets of extents, before any case is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.references.alike import Arrays, Evaluated
from fuzz.references.dims import NO_ELEMENTS, UnreadableError, shapes_text
from fuzz.references.reductions import LIMIT
from fuzz.references.tracing import intercepted
from oracles.algorithm import traced
from oracles.formula.exact.rigorous import Rigorous, UncertainError
from oracles.formula.made import completed, follows, grown
from oracles.formula.node import EITHER, LAST, SELECTS, Node, ordered
from oracles.formula.trace import FormulaError, Trace
from oracles.op import Op
from oracles.operand import OUTER, OpError

_AGREE = 1e-9
"""The difference, relative to the largest element of an output, that formula and reference may have."""
_ORDERS = 64.0
"""The tolerance, in bounds of the formula's rounding: a reference has its own order of operations."""
_MOST_WORK = 1 << 22
"""If a step would have more terms, both are compared at smaller extents."""
_SMALL = (2, 3, 5, 4, 6, 7, 8, 9, 10, 11, 12, 13)
"""Extents at which NaN and the like are compared if windows make many terms."""
_DOUBLED = 3
"""How often extents are doubled, all or all but one, if a reference raises because a window does not fit."""
_MISSING = 0.25
"""The share of places that are missing, if some may be."""
_TOGETHER = 3
"""The most dimensions that have one element at once when the reference is tried."""
_LEADING = (2, 3)
"""The dimensions that "..." stands for in the last set."""


@dataclass(frozen=True)
class Agreement:
    """What the guard found if no numbers differ."""

    sets: int
    specials: str
    """Where NaN, infinities or huge numbers go in and the results differ, in words; "" if nowhere."""
    unordered: bool
    """Whether elements are put in order, and a NaN among them has another place to the reference than to the formula:
    libraries differ there, so that no place of it is judged."""
    positive: Sequence[str]
    """The inputs that must be positive, or 0, for the outputs to be numbers."""
    zero: Sequence[str]
    """The positive inputs that may also be 0."""
    empty: bool
    """Whether tensors without elements are the same to both. The reference may raise for them."""
    least: Mapping[str, int]
    """The least number of elements along one or several dimensions for which the reference does not raise, if it raises
    for one element."""


@dataclass(frozen=True)
class RunReference:
    """A reference as the guard runs it, with arrays of float64, integers and flags."""

    outputs: Callable[[Arrays], Sequence[NDArray[Any]]]
    takes: Callable[[Arrays], object]
    """Raises what the reference raises."""


def hold(op: Op, reference: RunReference, extents: Sequence[Mapping[str, int]]) -> Agreement:
    """Compare an op's formula with its reference, and return what was found. Raises UnreadableError."""
    least = _taken(op, reference, dict(zip(extents[0], _SMALL, strict=False)), ()) if op.made else extents[0]
    wanted = _positive(op, least)
    sets = [*extents[:-1], _taken(op, reference, extents[-1], wanted)]
    for at, sizes in enumerate(sets):  # windows in windows have more terms than memory holds
        if op.work(sizes) > _MOST_WORK:
            small = (size + at for size in _SMALL)
            sets[at] = _taken(op, reference, dict(zip(sizes, small, strict=False)), wanted)
    for at, sizes in enumerate(sets):
        for word, arrays in _plain(op, sizes, wanted, outer=_LEADING if at == len(extents) - 1 else None):
            _compare(op, reference, arrays, word)
    specials, unordered = _specials(op, reference, least, wanted)
    empty = _edges(op, reference, least, wanted)
    zero = _zero(op, reference, least, wanted)
    return Agreement(len(extents), specials, unordered, wanted, zero, empty, _least(op, reference, least, wanted))


def _taken(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> Mapping[str, int]:
    """Return extents that are long enough for those that follow from them, and for the reference."""
    start = grown(op.made, {**sizes, **op.fixed}, op.fixed)
    free = sorted(follows(op.made, op.made) - {*op.fixed})
    # Padding by elements needs an axis that is longer than the window: if one dimension stays short, others must grow.
    for kept in ("", *free) if free else ():
        for turn in range(_DOUBLED):
            longer = {**start, **{dim: start[dim] << turn for dim in free if dim != kept}}
            with suppress(Exception):  # whatever it raises
                reference.takes(drawn(op, longer, np.random.default_rng(0), positive))
                return longer
    return {**start, **{dim: start[dim] << _DOUBLED for dim in free}}


def _edges(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> bool:
    """Return whether both agree without elements; with one element they must agree, unless the reference raises."""
    empty = not op.counted
    for dim in (dim for dim in sizes if dim not in op.fixed):
        for size in (0, 1) if empty else (1,):
            if op.whole({**sizes, dim: size}) is None:
                empty = False
                continue
            arrays = drawn(op, {**sizes, dim: size}, np.random.default_rng(3), positive)
            try:
                _compare(op, reference, arrays, "normal")
            except (OpError, FormulaError) as error:
                if size and error.__cause__ is None:
                    raise
                empty = empty and bool(size)
    return empty


def _least(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> Mapping[str, int]:
    """Return the least numbers of elements along dimensions for which the reference does not raise, if it raises for
    one element along one dimension, or along several together."""
    found = dict[str, int]()
    free = [dim for dim in sizes if dim not in op.fixed]
    for count in range(1, _TOGETHER + 1):
        for dims in combinations(free, count):
            if any({*each.split()} <= {*dims} for each in found):
                continue
            least = range(2, sizes[dims[0]] + 1) if count == 1 else (2,)
            if not _takes(op, reference, {**sizes, **dict.fromkeys(dims, 1)}, positive):
                taken = (
                    size for size in least if count > 1 or _takes(op, reference, {**sizes, dims[0]: size}, positive)
                )
                found[" ".join(dims)] = next(taken, sizes[dims[0]])
    for count in range(1, _TOGETHER + 1):  # the same for dimensions that no tensor has
        for dims in combinations(op.made, count):
            shortest = {**sizes, **dict.fromkeys(follows(op.made, dims) - op.fixed.keys(), 1)}
            shortest = grown(op.made, shortest, op.fixed)
            made = completed(op.made, shortest, least=0)
            is_new = not any({*each.split()} <= {*dims} for each in found) and all(made[dim] == 1 for dim in dims)
            if is_new and not _takes(op, reference, shortest, positive):
                found[" ".join(dims)] = 2
    return found


def _takes(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> bool:
    """Return whether neither the reference nor the formula raises, as for x[:2] of one element, which is shorter.
    Extents that others make negative or fractional are not tried."""
    if op.whole(sizes) is None:
        return True
    arrays = drawn(op, sizes, np.random.default_rng(3), positive)
    try:
        reference.takes(arrays)
        Evaluated(op, arrays)
    except Exception:  # whatever it raises
        return False
    return True


def _compare(op: Op, reference: RunReference, arrays: Arrays, word: str, graph: Trace | None = None) -> None:
    shapes = shapes_text({name: array.shape for name, array in arrays.items()})
    try:
        evaluated = Evaluated(op, arrays, graph=graph)
    except FormulaError as error:  # without elements there is no place
        raise UnreadableError(f"of {shapes}: {error}") from error
    here = evaluated.outputs
    there = dict(zip(here, _theirs(reference, arrays), strict=True))
    for name, mine in here.items():
        theirs = there[name]
        if mine.shape != theirs.shape:
            both = f"{list(theirs.shape)} of the reference and {list(mine.shape)} by the formula"
            raise UnreadableError(f"{name} has the shape {both}, of {shapes}")
        mine, theirs = evaluated.comparable(name, theirs)
        at = first_difference(mine, theirs)
        if at is not None and first_difference(mine, theirs, _rounded_off(op, arrays)[name]) is not None:
            if graph is None and (last := _with_last(evaluated.graph)) is not None:
                _compare(op, reference, arrays, word, last)
                return
            both = f"{name}{list(at)} = {theirs[at]:.17g}, and the formula {mine[at]:.17g}"
            raise UnreadableError(f"with {word} values of {shapes} it returns {both}")


def _theirs(reference: RunReference, arrays: Arrays) -> Sequence[NDArray[Any]]:
    try:
        return reference.outputs(arrays)
    except Exception as error:  # whatever it raises
        shapes = shapes_text({name: array.shape for name, array in arrays.items()})
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UnreadableError(f"of {shapes} it raises {said}") from error


def _with_last(graph: Trace) -> Trace | None:
    """Return a graph in which the last of equal elements is chosen where either is right; None if that is nowhere."""
    found = dict[Node, Node]()
    for node in graph.nodes:
        own = node.made_of(found)
        found[node] = replace(own, value=LAST) if node.kind == "place" and node.value == EITHER else own
    if all(new is old for old, new in found.items()):
        return None
    return replace(graph, outputs={name: found[node] for name, node in graph.outputs.items()})


def first_difference(
    mine: NDArray[Any], theirs: NDArray[Any], rounded_off: NDArray[Any] | float = 0.0
) -> tuple[int, ...] | None:
    """Return the first place where two outputs differ by more than the order of operations explains; None: nowhere."""
    with np.errstate(all="ignore"):
        finite = theirs[np.isfinite(theirs)]
        scale = float(np.abs(finite).max(initial=0.0))
        same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
        near = np.abs(mine - theirs) <= _AGREE * np.maximum(scale, 1e-300) + _ORDERS * rounded_off
    wrong = np.argwhere(~(same | near))
    return tuple(int(each) for each in wrong[0]) if len(wrong) else None


def value(op: Op, arrays: Arrays) -> Arrays:
    """Return the outputs of an op's formula in float64, as kernels return them."""
    return Evaluated(op, arrays).outputs


def _rounded_off(op: Op, arrays: Arrays) -> Arrays:
    """Return how far float64 may round each output off: entirely if terms cancel, such as one element and the mean."""
    try:
        found = Evaluated(op, arrays, Rigorous(), lambda near: np.broadcast_to(near.error, near.shape)).outputs
    except UncertainError:
        return dict.fromkeys((each.name for each in op.outputs), np.zeros(()))
    return {name: np.nan_to_num(error, nan=0.0) for name, error in found.items()}


def widened(reference: Callable[..., Any], arrays: Arrays, *, widens: bool = True) -> Sequence[NDArray[Any]]:
    """Return the outputs of a reference with float64 tensors that rounds nothing to a shorter float, floats as float64;
    or, if nothing `widens`, those of the tensors as they are."""
    import torch

    def wide(given: Any) -> Any:
        if isinstance(given, torch.dtype) and given.is_complex:
            return torch.complex128
        return torch.float64 if isinstance(given, torch.dtype) and given.is_floating_point else given

    def called(function: Any, args: Any, kwargs: Any) -> Any:
        if function._schema.name in ("aten::_softmax", "aten::_log_softmax"):
            args = (*args[:2], False)  # the last one says that it takes halves
        return function(*map(wide, args), **{name: wide(each) for name, each in kwargs.items()})

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if widens else before)
    try:
        with torch.enable_grad(), intercepted(called) if widens else nullcontext():
            returned = reference(**{name: torch.from_numpy(array.copy()) for name, array in arrays.items()})
    finally:
        torch.set_default_dtype(before)
    several = returned.values() if isinstance(returned, Mapping) else returned
    flat = [*several] if isinstance(returned, (Mapping, tuple, list)) else [returned]
    return [each.detach().to(wide(each.dtype)).numpy() for each in flat]


def _plain(
    op: Op, sizes: Mapping[str, int], positive: Sequence[str], outer: tuple[int, ...] | None
) -> Iterator[tuple[str, Arrays]]:
    random = np.random.default_rng(0)
    yield "normal", drawn(op, sizes, random, positive, outer=outer)
    yield "zero", drawn(op, sizes, random, positive, lambda _, shape: np.zeros(shape), outer=outer)
    yield (
        "far from zero",
        drawn(op, sizes, random, positive, lambda r, shape: 100.0 + r.normal(size=shape), outer=outer),
    )


_SPECIALS = {"NaN": math.nan, "an infinity": math.inf, "minus infinity": -math.inf, "1e200": 1e200}


def _specials(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> tuple[str, bool]:
    other, unordered = list[str](), False
    limits = {local: LIMIT for local, ways in op.algorithms.items() if LIMIT in ways}  # torch's own way to these
    graph = traced(op, [each.name for each in op.operands], limits) if limits else None
    for word, special in _SPECIALS.items():
        arrays = drawn(op, sizes, np.random.default_rng(1), ())
        for name, array in arrays.items():
            if array.dtype.kind == "f" and array.size and not (name in positive and special < 0):
                array.reshape(-1)[array.size // 2] = special
        here, there = Evaluated(op, arrays, graph=graph), _theirs(reference, arrays)
        pairs = {name: here.comparable(name, theirs) for name, theirs in zip(here.outputs, there, strict=True)}
        differ = [here.graph.outputs[name] for name, pair in pairs.items() if first_difference(*pair) is not None]
        if differ and word == "NaN" and all(any(each.kind in SELECTS for each in ordered([one])) for one in differ):
            unordered = True
        elif differ:
            other.append(word)
    return " and ".join([", ".join(other[:-1]), other[-1]] if len(other) > 1 else other), unordered


def drawn(
    op: Op, sizes: Mapping[str, int], random: np.random.Generator, positive: Sequence[str],
    how: Callable[[np.random.Generator, tuple[int, ...]], NDArray[Any]] | None = None,
    outer: tuple[int, ...] | None = None,
) -> dict[str, NDArray[Any]]:  # fmt: skip
    """Return values of all inputs, with these extents."""
    found, sizes = dict[str, NDArray[Any]](), {**sizes}
    for one, other in op.square:
        sizes[other] = sizes.get(one, sizes[other])
    sizes = op.whole(sizes) or sizes
    if {dim for each in op.inputs for dim in each.axes} - sizes.keys() - {OUTER}:
        raise UnreadableError(NO_ELEMENTS)
    for each in op.inputs:
        shape = tuple(
            size for dim in each.axes for size in (outer if dim == OUTER and outer is not None else (sizes[dim],))
        )
        if each.dtype == "bool":
            found[each.name] = random.random(shape) < 0.5
        elif each.integers:
            places = random.integers(*each.span(sizes), shape, endpoint=True)
            if each.missing is not None:
                places = np.where(random.random(shape) < _MISSING, each.missing, places)
            found[each.name] = places
        else:
            values = how(random, shape) if how is not None else random.normal(size=shape)
            found[each.name] = np.asarray(np.abs(values) + 0.01 if each.name in positive else values)
    return found


def _positive(op: Op, sizes: Mapping[str, int]) -> Sequence[str]:
    """Return the inputs that must be positive for outputs to be numbers, if normal ones are not enough: one, or all."""
    floats = [each.name for each in op.inputs if not each.integers]
    for some in ((), *((name,) for name in floats), tuple(floats)):
        found = value(op, drawn(op, sizes, np.random.default_rng(2), some))
        if all(np.isfinite(each).all() for each in found.values()):
            return some
    return ()


def _zero(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> Sequence[str]:
    """Return the positive inputs that may be zero: outputs are then still numbers, and the same as the formula's."""
    found = list[str]()
    for name in positive:
        random = np.random.default_rng(4)
        arrays = drawn(op, sizes, random, positive)
        arrays[name] = np.where(random.random(arrays[name].shape) < 0.5, 0.0, arrays[name])
        with suppress(UnreadableError):
            _compare(op, reference, arrays, "zero")
            if all(np.isfinite(each).all() for each in value(op, arrays).values()):
                found.append(name)
    return found
