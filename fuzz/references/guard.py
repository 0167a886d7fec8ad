"""The guard: before any case is drawn, a formula and its reference must agree in float64 at three sets of extents."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import chain, combinations
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
"""The largest difference of formula and reference, relative to the largest element of an output."""
_ORDERS = 64.0
"""A further tolerance, in error bounds of the formula in float64: a reference has its own order of operations."""
_MOST_WORK = 1 << 22
"""The most terms of a step of the formula. With more, formula and reference are compared at smaller extents."""
_MOST_CHECKED = 1 << 24
"""The same for the extents of a failing case, which takes seconds, once for each failure."""
_FAR = (1031, 1032, 1056, 1152)
"""Long extents, of which the first that fits is tried: a prime number, and multiples of 8, 32 and 128."""
_MOST_FAR = 1 << 18
"""The most terms of a step at those extents, so that reading takes hardly longer. Chosen."""
_WIDEST = {"i": "int64", "u": "int64", "b": "bool"}
"""The dtypes in which a reference is run, by NumPy's kinds; float64 for all floats."""
_SMALL = (2, 3, 5, 4, 6, 7, 8, 9, 10, 11, 12, 13)
"""Small extents, for steps with many terms and for special values such as NaN."""
_DOUBLED = 3
"""How often extents are doubled, all or all but one, if a reference raises since a window does not fit."""
_MISSING = 0.25
"""The share of places that are replaced by `Operand.missing`, if an input has it."""
_TOGETHER = 3
"""The most dimensions that have one element at the same time in calls that look for least extents."""
_LEADING = (2, 3)
"""The extents of "..." in the last set of extents."""
_ZERO = "zero"


@dataclass(frozen=True)
class Agreement:
    """The findings of the guard about a formula and a reference whose numbers agree."""

    sets: int
    specials: str
    """The special values (NaN, infinities, huge numbers) of inputs for which results differ, in words; "" for none."""
    unordered: bool
    """Whether elements are sorted or selected, and reference and formula put a NaN among them at different places.
    Libraries differ there, so that the place of a NaN is not judged."""
    positive: Sequence[str]
    """The inputs that must be positive for the outputs to be numbers."""
    zero: Sequence[str]
    """The inputs among `positive` that may also be 0."""
    empty: bool
    """Whether both agree about tensors without elements; False if the reference raises for them."""
    least: Mapping[str, int]
    """The least number of elements, by dimension or by several as "c s", for which the reference does not raise, if it
    raises for one element."""


@dataclass(frozen=True)
class RunReference:
    """A reference as the guard runs it: a function of arrays of float64, integers and flags, by name."""

    outputs: Callable[[Arrays], Sequence[NDArray[Any]]]
    takes: Callable[[Arrays], object]
    """A function that raises what the reference raises for arrays of these shapes."""


def hold(op: Op, reference: RunReference, extents: Sequence[Mapping[str, int]]) -> Agreement:
    """Return the findings of a comparison of a formula with its reference. Raises UnreadableError if numbers differ."""
    least = _taken(op, reference, dict(zip(extents[0], _SMALL, strict=False)), ()) if op.made else extents[0]
    wanted = _positive(op, least)
    sets = [*extents[:-1], _taken(op, reference, extents[-1], wanted)]
    for at, sizes in enumerate(sets):  # windows of windows may not fit into memory
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


def difference_at(op: Op, reference: RunReference, given: Arrays, positive: Sequence[str]) -> str:
    """Return how a formula differs from its reference for these inputs, or for plain ones of the same shapes; "" if it
    does not, or if that cannot be told: the reference raises, or a step has too many terms."""
    sizes, outer = dict[str, int](), tuple[int, ...]()
    for each in op.inputs:
        named, shape = [dim for dim in each.axes if dim != OUTER], given[each.name].shape
        sizes.update(zip(named, shape[len(shape) - len(named) :], strict=True))
        outer = shape[: len(shape) - len(named)] if OUTER in each.axes else outer
    try:
        if op.work({**sizes, OUTER: math.prod(outer)}) <= _MOST_CHECKED:
            word, plain = next(_plain(op, sizes, positive, outer))
            own = {name: each.astype(_WIDEST.get(each.dtype.kind, "float64")) for name, each in given.items()}
            # Where no bound is known, as of transforms, no more is rounded off than this: zeros of equal numbers.
            sizes_of = (np.abs(each).sum() for each in own.values() if each.dtype.kind == "f")
            off = float(np.finfo(np.float64).eps * sum(sizes_of, 0.0))
            return _difference(op, reference, plain, word) or _difference(op, reference, own, "these", off)
    except Exception:  # the reference's own
        return ""
    return ""


def hold_far(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> None:
    """Compare a formula with its reference where one dimension after the other is long. Raises UnreadableError if they
    differ, as where a reference takes the first 64 elements of whatever it is given."""
    for dim in [dim for dim in sizes if dim not in op.fixed]:
        for far in _FAR:
            own = {**sizes, **dict.fromkeys(_tied(op, dim), far)}
            if op.work(own) > _MOST_FAR or op.whole(own) is None:
                continue
            try:
                arrays = drawn(op, own, np.random.default_rng(0), positive, outer=(2,))
                reference.takes(arrays)
                said = _difference(op, reference, arrays, "normal")
            except Exception:  # the reference's own, of extents that it does not take
                continue
            if said:
                raise UnreadableError(f"does something else at larger extents: {said}")
            break


def _difference(op: Op, reference: RunReference, arrays: Arrays, word: str, off: float = 0.0) -> str:
    """Return how a formula differs from its reference for these inputs; "" if rounding explains it. `off` is what may
    be rounded off where the formula does not tell."""
    try:
        _compare(op, reference, arrays, word, off=off)
    except UnreadableError as error:
        # It may raise, as for extents that it does not take; and of several rows written to one place, another may stay
        # where more threads write.
        is_told = error.__cause__ is None and _with_last(Evaluated(op, arrays).graph) is None
        return str(error) if is_told else ""
    return ""


def _taken(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> Mapping[str, int]:
    """Return extents enlarged so that others follow from them and, if possible, the reference does not raise."""
    start = grown(op.made, {**sizes, **op.fixed}, op.fixed)
    free = sorted(follows(op.made, op.made) - {*op.fixed})
    # Padding by an axis's own elements needs an axis longer than the padding: all dimensions must grow, or all but one.
    for kept in ("", *free) if free else ():
        for turn in range(_DOUBLED):
            longer = {**start, **{dim: start[dim] << turn for dim in free if dim != kept}}
            with suppress(Exception):  # a reference may raise anything
                reference.takes(drawn(op, longer, np.random.default_rng(0), positive))
                return longer
    return {**start, **{dim: start[dim] << _DOUBLED for dim in free}}


def _edges(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> bool:
    """Whether both agree without elements. Raises UnreadableError if they differ about one element."""
    empty = not op.counted
    for dim in (dim for dim in sizes if dim not in op.fixed):
        for size in (0, 1) if empty else (1,):
            own = {**sizes, **dict.fromkeys(_tied(op, dim), size)}
            if op.whole(own) is None:
                empty = False
                continue
            arrays = drawn(op, own, np.random.default_rng(3), positive)
            try:
                _compare(op, reference, arrays, "normal")
            except (OpError, FormulaError) as error:
                if size and error.__cause__ is None:
                    raise
                empty = empty and bool(size)
    return empty


def _tied(op: Op, dim: str) -> Collection[str]:
    """Return a dimension and those that always have its extent."""
    found = {dim}
    for _ in op.square:
        found |= {each for pair in op.square if found & {*pair} for each in pair}
    return found


def _least(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> Mapping[str, int]:
    """Return `Agreement.least`, for dimensions along which, alone or together with others, the reference raises for one
    element."""
    found = dict[str, int]()
    free = [dim for dim in sizes if dim not in op.fixed]
    for count in range(1, _TOGETHER + 1):
        for dims in combinations(free, count):
            if any({*each.split()} <= {*dims} for each in found):
                continue
            least, tied = range(2, sizes[dims[0]] + 1) if count == 1 else (2,), [_tied(op, dim) for dim in dims]
            if not _takes(op, reference, {**sizes, **dict.fromkeys(chain(*tied), 1)}, positive):
                taken = (
                    size
                    for size in least
                    if count > 1 or _takes(op, reference, {**sizes, **dict.fromkeys(tied[0], size)}, positive)
                )
                found[" ".join(dims)] = next(taken, sizes[dims[0]])
    for count in range(1, _TOGETHER + 1):  # the same for dimensions with a count
        for dims in combinations(op.made, count):
            shortest = {**sizes, **dict.fromkeys(follows(op.made, dims) - op.fixed.keys(), 1)}
            shortest = grown(op.made, shortest, op.fixed)
            made = completed(op.made, shortest, least=0)
            is_new = not any({*each.split()} <= {*dims} for each in found) and all(made[dim] == 1 for dim in dims)
            if is_new and not _takes(op, reference, shortest, positive):
                found[" ".join(dims)] = 2
    return found


def _takes(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> bool:
    """Whether neither the reference nor the formula raises for these extents; True for impossible ones. The formula of
    x[:2] raises for one element, which is too short."""
    if op.whole(sizes) is None:
        return True
    arrays = drawn(op, sizes, np.random.default_rng(3), positive)
    try:
        reference.takes(arrays)
        Evaluated(op, arrays)
    except Exception:  # a reference may raise anything
        return False
    return True


def _compare(
    op: Op, reference: RunReference, arrays: Arrays, word: str, graph: Trace | None = None, off: float = 0.0
) -> None:
    shapes = shapes_text({name: array.shape for name, array in arrays.items()})
    try:
        evaluated = Evaluated(op, arrays, graph=graph)
    except FormulaError as error:  # no place exists without elements
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
        if at is not None and first_difference(mine, theirs, _rounded_off(op, arrays, off)[name]) is not None:
            if graph is None and (last := _with_last(evaluated.graph)) is not None:
                if word == _ZERO:  # all elements are equal, and torch selects neither the first nor the last
                    continue
                _compare(op, reference, arrays, word, last, off)
                return
            both = f"{name}{list(at)} = {theirs[at]:.17g}, and the formula {mine[at]:.17g}"
            raise UnreadableError(f"with {word} values of {shapes} it returns {both}")


def _theirs(reference: RunReference, arrays: Arrays) -> Sequence[NDArray[Any]]:
    try:
        return reference.outputs(arrays)
    except Exception as error:  # a reference may raise anything
        shapes = shapes_text({name: array.shape for name, array in arrays.items()})
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UnreadableError(f"of {shapes} it raises {said}") from error


def _with_last(graph: Trace) -> Trace | None:
    """Return a graph that chooses the last of equal elements where any is right; None if there is no such choice."""
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
    """Return the first index at which outputs differ by more than another order of operations explains, or None."""
    with np.errstate(all="ignore"):
        finite = theirs[np.isfinite(theirs)]
        scale = float(np.abs(finite).max(initial=0.0))
        same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
        near = np.abs(mine - theirs) <= _AGREE * np.maximum(scale, 1e-300) + _ORDERS * rounded_off
    wrong = np.argwhere(~(same | near))
    return tuple(int(each) for each in wrong[0]) if len(wrong) else None


def value(op: Op, arrays: Arrays) -> Arrays:
    """Return the outputs of an op's formula in float64, in the shapes that kernels return."""
    return Evaluated(op, arrays).outputs


def _rounded_off(op: Op, arrays: Arrays, unknown: float = 0.0) -> Arrays:
    """Return bounds of the rounding errors of outputs in float64: as large as the output if terms cancel, and `unknown`
    if they cannot be told."""
    try:
        found = Evaluated(op, arrays, Rigorous(), lambda near: np.broadcast_to(near.error, near.shape)).outputs
    except UncertainError:
        return dict.fromkeys((each.name for each in op.outputs), np.full((), unknown))
    return {name: np.nan_to_num(error, nan=0.0) for name, error in found.items()}


def widened(
    reference: Callable[..., Any], arrays: Arrays, *, widens: bool = True, device: str | None = None
) -> Sequence[Any]:
    """Return the outputs of a reference for float64 tensors, with its casts to shorter floats left out; without
    `widens`, for the tensors and casts as they are. Floating-point outputs are float64. With a `device`, the reference
    runs there, `arrays` may be tensors there, and the outputs are, else they are arrays."""
    import torch

    def wide(given: Any) -> Any:
        if isinstance(given, torch.dtype) and given.is_complex:
            return torch.complex128
        return torch.float64 if isinstance(given, torch.dtype) and given.is_floating_point else given

    def called(function: Any, args: Any, kwargs: Any) -> Any:
        if function._schema.name == "aten::nextafter":
            raise UnreadableError("what nextafter returns depends on the dtype: float64 says nothing about it")
        if function._schema.name in ("aten::_softmax", "aten::_log_softmax"):
            args = (*args[:2], False)  # the last one allows 16-bit inputs
        return function(*map(wide, args), **{name: wide(each) for name, each in kwargs.items()})

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if widens else before)
    try:
        given = {name: each.clone() if isinstance(each, torch.Tensor) else torch.tensor(each, device=device)
                 for name, each in arrays.items()}  # fmt: skip
        with (
            _unfused(),
            torch.device(device) if device else nullcontext(),
            torch.enable_grad(),
            intercepted(called) if widens else nullcontext(),
        ):
            returned = reference(**given)
    finally:
        torch.set_default_dtype(before)
    several = returned.values() if isinstance(returned, Mapping) else returned
    flat = [*several] if isinstance(returned, (Mapping, tuple, list)) else [returned]
    found = [each.detach().to(wide(each.dtype)) for each in flat]
    return found if device else [each.numpy() for each in found]


@contextmanager
def _unfused() -> Iterator[None]:
    """Let torch calculate attention and layers of transformers by their parts, each of which rounds. A fused operation
    would count as one that rounds once."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kept = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(kept)


def _plain(
    op: Op, sizes: Mapping[str, int], positive: Sequence[str], outer: tuple[int, ...] | None
) -> Iterator[tuple[str, Arrays]]:
    random = np.random.default_rng(0)
    yield "normal", drawn(op, sizes, random, positive, outer=outer)
    yield _ZERO, drawn(op, sizes, random, positive, lambda _, shape: np.zeros(shape), outer=outer)
    yield (
        "far from zero",
        drawn(op, sizes, random, positive, lambda r, shape: 100.0 + r.normal(size=shape), outer=outer),
    )


_SPECIALS = {"NaN": math.nan, "an infinity": math.inf, "minus infinity": -math.inf, "1e200": 1e200}


def _specials(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> tuple[str, bool]:
    other, unordered = list[str](), False
    limits = {local: LIMIT for local, ways in op.algorithms.items() if LIMIT in ways}  # torch's own algorithms
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
    """Return random values of all inputs for these extents. `how` draws floats, `outer` are the extents of "..."."""
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
    """Return the inputs that must be positive for outputs that are numbers, or an infinity that the formula writes:
    none, one, or all."""
    floats = [each.name for each in op.inputs if not each.integers]
    for some in ((), *((name,) for name in floats), tuple(floats)):
        found = Evaluated(op, drawn(op, sizes, np.random.default_rng(2), some))
        written = {
            each.value for node in found.graph.outputs.values() if node.kind == "where" for each in node.args[1:]
        }
        if all((np.isfinite(each) | np.isin(each, [*written - {0.0}])).all() for each in found.outputs.values()):
            return some
    return ()


def _zero(op: Op, reference: RunReference, sizes: Mapping[str, int], positive: Sequence[str]) -> Sequence[str]:
    """Return the positive inputs that may be zero: outputs are then still finite, and agree with the formula."""
    found = list[str]()
    for name in positive:
        random = np.random.default_rng(4)
        arrays = drawn(op, sizes, random, positive)
        arrays[name] = np.where(random.random(arrays[name].shape) < 0.5, 0.0, arrays[name])
        with suppress(UnreadableError):
            _compare(op, reference, arrays, _ZERO)
            if all(np.isfinite(each).all() for each in value(op, arrays).values()):
                found.append(name)
    return found
