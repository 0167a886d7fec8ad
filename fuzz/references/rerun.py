"""The replay: what a reference returns in float64, and how much that moves where each operation rounds at random.

For references that no formula is read from. It is a weaker judge than a formula: nothing proves the centre where a
problem is badly conditioned, rounding errors that are not random are not among those that were tried, and what depends
on a decision that rounding may turn is not judged.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.references.alike import Arrays
from fuzz.references.guard import first_difference, widened
from fuzz.references.tracing import intercepted, tensors_in
from oracles.doubledouble import F64
from oracles.dtypes import SINGLE

RUNS, FINE = 12, 6
"""The number of replays that round at random, and of those that round the same way as finely as f32."""
TIMES = 16.0
"""They round so many times as coarsely as f32, and what they differ by is allowed. Torch in f32 and second ways to the
same values needed at most a seventh of that, of 25 to 40 inputs of each of 12 functions, normal, positive, of few
values or with a large mean: attention, softmax, norms, a variance, logsumexp, cumulated sums and products, a
convolution, an RNN, clipping and solving."""
_ALIKE = 0.5
"""What a coarse replay is off by is `TIMES` what the fine one is, but for this share of the largest: where it is not, a
decision was turned, and others may be turned in a kernel."""
_TURNED = 16
"""Where more than one in so many elements are not judged for that, the others hang on too many decisions."""
_PLAIN = frozenset(f"aten::{name}" for name in (
    "cat", "stack", "clone", "copy", "copy_", "index", "gather", "where", "_to_copy", "relu", "max", "min", "amax",
    "amin", "maximum", "minimum", "abs", "neg", "sort", "topk", "index_select", "embedding", "masked_fill", "clamp",
    "clamp_min", "clamp_max", "floor", "ceil", "round", "sign", "roll", "flip", "constant_pad_nd", "select_scatter",
    "slice_scatter", "tril", "triu", "repeat", "fill_", "zero_", "masked_fill_", "index_put_",
))  # fmt: skip
"""They round nothing."""
_FOURIER = frozenset(f"aten::{name}" for name in ("_fft_r2c", "_fft_c2c", "_fft_c2r"))
"""They err in proportion to the sum of magnitudes of the row that enters: kernels add up its elements in stages."""
_LINEAR = _FOURIER | frozenset(f"aten::{name}" for name in (
    "sum", "mean", "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "convolution", "cumsum", "index_add", "scatter_add",
))  # fmt: skip
"""They err in proportion to the sum of magnitudes."""
_PARTS = frozenset(f"aten::{name}" for name in (
    "native_layer_norm", "native_group_norm", "native_batch_norm", "_softmax", "_log_softmax", "_safe_softmax", "var",
    "var_mean", "std", "logsumexp", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d",
    "upsample_bicubic2d",
))  # fmt: skip
"""They round in each of their parts."""
_ALGEBRA = tuple(f"aten::{name}" for name in ("linalg_", "_linalg", "cholesky", "triangular_solve", "inverse", "lu_"))
"""They are what they would be of matrices that are off by roundings of their largest elements: backward stable."""


_ANY_OF_EQUAL = ("aten::topk", "aten::sort", "aten::kthvalue", "aten::median", "aten::mode")
"""They document no order of equal elements, unless a sort is stable."""
_FIRST_OF_EQUAL = ("aten::argmax", "aten::argmin", "aten::max", "aten::min")
_OF_ORDER = (*_ANY_OF_EQUAL, *_FIRST_OF_EQUAL, "aten::amax", "aten::amin")
"""They return NaN where there is one, or put it after all numbers, as torch documents of some and does in all."""


@dataclass(frozen=True)
class PlacesOutput:
    """What an output of places is compared by: the elements that stand there."""

    table: F64
    axis: int
    dropped: bool
    """Whether the output lacks this axis."""
    first: bool
    """Whether of equal elements the first alone is right, as torch documents: where the table is an input itself. What
    is calculated on the way may differ by roundings."""

    def elements(self, places: NDArray[Any]) -> F64:
        """Return what stands at places; NaN where there is no such place."""
        known = self.exist(places)
        at = np.where(known, places, 0).astype(np.int64)
        at = np.expand_dims(at, self.axis) if self.dropped else at
        found = np.take_along_axis(self.table, at, self.axis)
        return np.where(known, found.squeeze(self.axis) if self.dropped else found, math.nan)

    def exist(self, places: NDArray[Any]) -> NDArray[np.bool_]:
        """Return where there is such a place, which does not stand before it already."""
        known = (places >= 0) & (places < self.table.shape[self.axis]) & (places == np.floor(places))
        if not self.dropped:
            order = np.argsort(places, axis=self.axis, kind="stable")
            same = np.diff(np.take_along_axis(places, order, self.axis), axis=self.axis, prepend=math.nan) == 0
            again = np.zeros(places.shape, bool)
            np.put_along_axis(again, order, same, self.axis)
            known &= ~again
        return np.asarray(known)


@dataclass(frozen=True)
class Replayed:
    """One output."""

    value: F64
    """NaN where it is not judged: where the reference has one, or an infinity, in float64 or in any of its replays, and
    where these differ by more than what comes of fewer bits."""
    allowed: F64
    """How far a kernel's value may be off before it is rounded to its dtype."""
    whole: bool = False
    """Whether they are integers or flags, which are not rounded."""
    places: PlacesOutput | None = None
    """What an output of places is compared by: a place is right if its element is off by no more than is allowed."""
    moved: bool = False
    """Whether it is elements of an input, or their places, as order selects them: NaN and infinities are judged too."""

    @property
    def compared(self) -> F64:
        """What a kernel's values, or the elements at its places, are compared with."""
        return self.value if self.places is None else self.places.elements(self.value)


@dataclass(frozen=True)
class Selected:
    """What an operation selects by order."""

    values: NDArray[Any]
    """Elements, or places."""
    places: PlacesOutput | None
    """What stands at places; None of elements."""
    moved: bool
    """Whether it selects of an input itself."""


@dataclass(frozen=True)
class Ways:
    """How a reference is run: each returns its outputs as arrays of float64."""

    exact: Callable[[Arrays], Sequence[NDArray[Any]]]
    """In float64; integers and flags stay such."""
    single: Callable[[Arrays], Sequence[NDArray[Any]]]
    """As it is, with floats of f32."""
    noisy: Callable[[Arrays, int, float], Sequence[NDArray[Any]]]
    """In float64, where all rounds at random, by a seed, so many times as coarsely as f32; what the reference draws at
    random itself is drawn by that seed, too."""
    takes: Callable[[Arrays], object]
    """Raises what the reference raises."""
    selected: Callable[[Arrays], Sequence[Selected]] = lambda arrays: ()
    """In float64: what it selects by order."""


def ways_of(reference: Callable[..., Any], library: str = "torch") -> Ways:
    """Return how a reference is run that calculates with "torch" or "jax"."""
    if library == "jax":
        from fuzz.references.jaxprs.replaying import Replaying

        found = Replaying(reference)
        return Ways(found.exact, found.single, found.noisy, found.exact.takes)
    return Ways(
        partial(widened, reference), lambda arrays: widened(reference, floats_as(np.float32, arrays), widens=False),
        partial(_noisy, reference), partial(widened, reference), partial(_selected, reference),
    )  # fmt: skip


def replayed(ways: Ways, arrays: Arrays) -> Sequence[Replayed]:
    """Return the outputs of a reference of these inputs. Raises what the reference does."""
    made = ways.exact(arrays)
    exact = [each.astype(np.float64) for each in made]
    ordered = any(each.dtype.kind == "i" or not np.isfinite(each).all() for each in made)
    selected = ways.selected(arrays) if ordered else ()
    others = [(ways.single(arrays), TIMES)]
    others += [(ways.noisy(arrays, seed, TIMES), 1.0) for seed in range(RUNS)]
    fine = [ways.noisy(arrays, seed, 1.0) for seed in range(FINE)]
    found = list[Replayed]()
    for at, value in enumerate(exact):
        whole = made[at].dtype.kind in "iub"
        if any(
            len(run) != len(exact) or run[at].shape != value.shape for run in (*(each for each, _ in others), *fine)
        ):
            shape = np.full(value.shape, math.nan)
            found.append(Replayed(shape, shape, whole))
            continue
        same = [each for each in selected if np.array_equal(each.values, value, equal_nan=True)]
        places = next((each.places for each in same if whole and each.places), None)
        moved = any(each.moved and (each.places is not None) == whole for each in same)
        of = np.asarray if places is None else places.elements
        chosen, value = value, of(value)
        with np.errstate(all="ignore"):
            away = np.max([np.abs(of(run[at]) - value) * times for run, times in others], axis=0, initial=0.0)
            least = np.zeros(value.shape) if whole and places is None else 4 * SINGLE.u * np.abs(value) + SINGLE.tiny
            pairs = zip((of(run[at]) for run, _ in others[1:]), (of(run[at]) for run in fine), strict=False)
            bent = np.max([np.abs(value + TIMES * (few - value) - many) for many, few in pairs], axis=0, initial=0.0)
            finite = np.isfinite(value) & np.isfinite(away)
            known = finite & (bent <= _ALIKE * away + least)
            known &= _TURNED * (finite & ~known).sum() <= finite.sum()
            special = moved & ~np.isfinite(value)
            allowed = np.where(special, 0.0, np.where(known, away + least, math.nan))
        if places is None:  # else a place must exist, whatever stands there
            chosen = np.where(known | special, value, math.nan)
        found.append(Replayed(chosen, allowed, whole and places is None, places, moved))
    return found


def _selected(reference: Callable[..., Any], arrays: Arrays) -> Sequence[Selected]:
    """What it selects by order."""
    found = list[Selected]()

    def noted(function: Any, args: Any, kwargs: Any) -> Any:
        made, name = function(*args, **kwargs), function._schema.name
        given, several = _bound(function, args, kwargs), isinstance(made, tuple)
        if name not in _OF_ORDER or "other" in given:
            return made
        table, dim = given["self"].detach().numpy().astype(np.float64), given.get("dim")
        is_input = any(np.array_equal(each.reshape(-1), table.reshape(-1), equal_nan=True) for each in floats)
        if "arg" not in name:
            found.append(Selected((made[0] if several else made).detach().numpy().copy(), None, is_input))
        if several or "arg" in name:
            table, axis = (table.reshape(-1), 0) if dim is None or not table.ndim else (table, dim % table.ndim)
            first = is_input and (name in _FIRST_OF_EQUAL or bool(given.get("stable")))
            places = (made[1] if several else made).numpy()
            dropped = places.ndim < table.ndim or not places.ndim
            found.append(Selected(places.copy(), PlacesOutput(table.copy(), axis, dropped, first), is_input))
        return made

    floats = [each.astype(np.float64) for each in arrays.values()]

    def called(**tensors: Any) -> Any:
        with intercepted(noted):
            return reference(**tensors)

    widened(called, arrays)
    return found


def _bound(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of an operation by their names, with its defaults."""
    names = [each.name for each in function._schema.arguments]
    defaults = {each.name: each.default_value for each in function._schema.arguments if each.has_default_value()}
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def draws_at_random(ways: Ways, arrays: Arrays) -> bool:
    """Whether a reference makes something else of the same inputs where generators of random numbers begin elsewhere.
    They go on afterwards as if it had not run."""
    import torch

    before, found = (random.getstate(), np.random.get_state()), list[Sequence[NDArray[Any]]]()
    try:
        with torch.random.fork_rng(devices=()):
            for seed in (1, 2):
                for begin in (torch.manual_seed, random.seed, np.random.seed):
                    begin(seed)
                found.append(ways.exact(arrays))
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
    one, two = ([each.astype(np.float64) for each in run] for run in found)
    if [each.shape for each in one] != [each.shape for each in two]:
        return True
    return any(first_difference(*pair) is not None for pair in zip(one, two, strict=True))


def floats_as(dtype: type[np.floating[Any]], arrays: Arrays) -> Arrays:
    """Return arrays whose floats are of that dtype."""
    return {name: each.astype(dtype) if each.dtype.kind == "f" else each for name, each in arrays.items()}


def _noisy(reference: Callable[..., Any], arrays: Arrays, seed: int, times: float) -> Sequence[F64]:
    """A replay in which all that is calculated, and all that is given, rounds at random, so many times as coarsely as
    f32."""
    import torch
    from torch._decomp import decomposition_table

    chance = torch.Generator().manual_seed(seed)

    def off(size: Any, of: Any = None) -> Any:
        if of is not None and of.is_complex():
            return torch.complex(off(size), off(size))
        size = size.nan_to_num(0.0, 0.0, 0.0)  # an infinity is one in every kernel
        return (2 * torch.rand(size.shape, generator=chance, dtype=torch.float64) - 1) * times * SINGLE.u * size

    def rounded(function: Any, args: Any, kwargs: Any) -> Any:
        name = function._schema.name
        if torch.Tag.nondeterministic_seeded in function.tags:
            draws = kwargs.get("generator") or torch
            draws.manual_seed(seed + 1)
        if name in _PARTS and function in decomposition_table:
            with noise:
                return decomposition_table[function](*args, **kwargs)
        named = _bound(function, args, kwargs) if name in _ANY_OF_EQUAL and args[0].dim() else {}
        if isinstance(named.get("dim"), int) and not named.get("stable"):
            order = torch.randperm(args[0].shape[named["dim"]], generator=chance)
            values, places = function(args[0].index_select(named["dim"], order), *args[1:], **kwargs)
            return values, order[places]
        given = [each for each in tensors_in((args, kwargs)) if _rounds(each)]
        if name.startswith(_ALGEBRA):
            args = _each(args, lambda each: each + off(each.abs().amax().expand_as(each)) * each.shape[-1] ** 0.5)
        before = {each.untyped_storage().data_ptr() for each in given}
        found = function(*args, **kwargs)
        if not given or name in _PLAIN:
            return found
        size = function(*_each(args, lambda each: each.abs().to(each.dtype)), **kwargs) if name in _LINEAR else None
        if size is not None and name in _FOURIER:
            size = size.abs().amax(args[1], keepdim=True).expand_as(size)
        root = math.sqrt(_terms(name, given, found))
        for each in tensors_in(found):
            own = each.untyped_storage().data_ptr() not in before
            if _rounds(each) and each.numel() and (own or name.endswith("_")):
                each += off(each.abs() if size is None else size.abs(), each) * root
        return found

    noise = intercepted(rounded)

    def called(**tensors: Any) -> Any:
        given = {n: each + off(each.abs(), each) if _rounds(each) else each for n, each in tensors.items()}
        with noise:
            return reference(**given)

    return widened(called, arrays)


def _terms(name: str, given: Sequence[Any], found: Any) -> int:
    """How many terms are added up for one element, as far as shapes say so."""
    size = max([each.numel() for each in tensors_in(found)] or [1])
    inner = max(each.shape[-1] if each.dim() else 1 for each in given) if name in _LINEAR else 1
    return int(max(1, inner, *(each.numel() // max(size, 1) for each in given)))


def _rounds(value: Any) -> bool:
    return bool(value.is_floating_point() or value.is_complex())


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same, with each tensor of floats changed."""
    import torch

    if isinstance(value, torch.Tensor):
        return change(value) if _rounds(value) and value.dim() else value
    return type(value)(_each(each, change) for each in value) if isinstance(value, (list, tuple)) else value
