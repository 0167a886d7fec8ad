"""The cases of a replay: inputs of a reference that no formula is read from, and what its outputs may be off by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.errors import UsageError
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.base.text import counted
from fuzz.core.generate.menus import MENUS
from fuzz.core.generate.observed import made_so
from fuzz.core.generate.recipes import Recipe, RowSpec
from fuzz.references.asked import AskedReference, asked_of
from fuzz.references.derive import output_names, taken
from fuzz.references.dims import UnreadableError
from fuzz.references.parameters import titled
from fuzz.references.replay.ranges import Span, accepted, spans_of
from fuzz.references.rerun import RUNS, TIMES, Replayed, Ways, draws_at_random, replayed, ways_of
from fuzz.references.tracing import RETURNS_NONE
from oracles.dtypes import FORMATS, SINGLE
from oracles.formula.made import completed, grown
from oracles.operand import Kept

WEAKER = (
    f"oracle: replay, weaker than a formula: errors below what {RUNS} replays of the reference differ by that round at "
    f"random, {TIMES:g} times as coarsely as f32, are not seen, nor those where that may turn a decision"
)
DTYPES = "f32", "f64", "bf16", "f16"
"""The dtypes of floats that are compared with a replay."""
_EXTENTS = (4, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257)
_MOST = 1 << 13
"""No tensor has more elements: a case is replayed twenty times."""
_TRIES = 16
"""A reference may raise for so many draws one after the other before it is said to take none."""
_SPANNED = 6
"""The cases of other extents each by which a range of integers is tried."""
_SAME = 4
"""The first cases on which the reference is run twice: one alone may have one element, which dropout keeps both times.
Inputs that come with a reference are large."""
_RANDOM = "draws at random, so no result of it is right or wrong: make what it draws an input"
_COMPILED = 12
"""The sets of extents for which a reference is compiled, where that is done for each."""
_CLEAR = 16
"""An element counts as judged where less than this part of the largest one of its output is allowed: by what is random
in a reference its replays differ by as much as it is."""


class ReplayError(UsageError):
    """A reference that cannot be replayed. The message says why."""


@dataclass(frozen=True)
class ReplayCase:
    """One input."""

    arrays: Mapping[str, NDArray[Any]]
    """Floats as float64."""
    recipes: Mapping[str, str]
    dtype: str
    """The dtype of floats, as a kernel is given them."""

    @property
    def elements(self) -> int:
        """The number of elements of all inputs."""
        return sum(each.size for each in self.arrays.values())


@dataclass(frozen=True)
class Comparison:
    """What is said of the outputs of a case."""

    wrong: str
    """What is wrong with them; "" if nothing is."""
    judged: int = 0
    """How many elements are judged."""
    ratio: float = 0.0
    """The largest error, as a share of what is allowed."""
    place: tuple[str, str, str, str] | None = None
    """The place of the worst element that is wrong, what it is and must be, and how far it may be off."""


Own = Callable[[int], Mapping[str, NDArray[Any]]]
"""Draws inputs that come with a reference, by a seed: floats as float64."""


@dataclass(frozen=True)
class Meant:
    """A reference, and what is drawn for it."""

    asked: AskedReference
    dtypes: Mapping[str, str]
    """The dtype of each tensor, as torch calls it."""
    floats: Sequence[str]
    """The dtypes of floats that a kernel is given."""
    values: Mapping[str, str] | str
    multiple: int
    least: int
    own: Own | None = None
    """Where inputs come with the reference: these are drawn, and no others."""
    kept: Mapping[str, Kept] = field(default_factory=dict)
    """What the values of tensors are made to be."""
    square: Sequence[tuple[str, str]] = ()
    """Two dimensions each that have as many elements."""

    @cached_property
    def spans(self) -> Mapping[str, Span]:
        """What each tensor of integers is drawn from: the widest range that the reference takes."""
        integers = [name for name, dtype in self.dtypes.items() if dtype == "bool" or "int" in dtype]
        found = dict.fromkeys(integers, Span(0))

        def refusals(name: str, span: Span) -> int:
            return self._refusals({**found, name: span})

        for name in integers:
            candidates = spans_of(self.dtypes[name], self.asked.shown.get(name))
            found[name] = accepted(candidates, partial(refusals, name))
        return found

    def _refusals(self, spans: Mapping[str, Span]) -> int:
        """How often the reference raises for integers from there."""
        count = 0
        for number in range(_SPANNED):
            stream = Stream(number).child("spans")
            try:
                self._try(self._drawn(Dice(stream), stream.child("values"), self.floats[0], spans))
            except Exception:  # whatever it raises
                count += 1
        return count

    @cached_property
    def ways(self) -> Ways:
        """How the reference is run."""
        return ways_of(self.asked.call, self.asked.library)

    def cases(self, seed: int) -> Iterator[ReplayCase]:
        """Draw cases without end. Raises ReplayError where the reference takes none."""
        for number, case in enumerate(self._taken(seed)):
            if number < (_SAME if self.own is None else 1) and self._is_random(case):
                raise ReplayError(f"{titled(self.asked.reference)} {_RANDOM}")
            yield case

    def _is_random(self, case: ReplayCase) -> bool:
        try:
            return draws_at_random(self.ways, case.arrays)
        except Exception:  # whatever it raises in float64: nothing is judged there
            return False

    def _taken(self, seed: int) -> Iterator[ReplayCase]:
        if self.own is not None:
            for number in count():
                arrays = self.own(Stream(seed).child(f"own {number}").key)
                yield ReplayCase(arrays, dict.fromkeys(arrays, "its own"), self.floats[0])
        refused, number = 0, 0
        while True:
            which = number % _COMPILED if self.asked.library == "jax" else number
            dtype = self.floats[number % len(self.floats)]
            dice = Dice(Stream(seed).child(f"case {which}"))
            case = self._drawn(dice, Stream(seed).child(f"values {number}"), dtype, self.spans)
            number += 1
            try:
                self._try(case)
            except ReplayError:
                raise
            except Exception as error:  # whatever it raises: it has no meaning there
                refused += 1
                if refused > _TRIES:
                    raise ReplayError(
                        f"oracle='replay': the reference raises {type(error).__name__}: {error}"
                    ) from error
                continue
            refused = 0
            yield case

    def outputs(self, case: ReplayCase) -> Mapping[str, tuple[tuple[int, ...], str]]:
        """Return the shape and the dtype of each output, as torch calls that. Raises what the reference raises."""
        if self.asked.library == "jax":
            import jax

            given = {name: jax.ShapeDtypeStruct(each.shape, np.float32 if each.dtype.kind == "f" else each.dtype)
                     for name, each in case.arrays.items()}  # fmt: skip
            found = jax.eval_shape(self.asked.call, **given)
        else:
            found = self._returned(case)
        keys = tuple(map(str, found)) if isinstance(found, Mapping) else ()
        several = found.values() if isinstance(found, Mapping) else found
        flat = [*several] if isinstance(found, (Mapping, tuple, list)) else [found]
        names = output_names(self.asked, keys, len(flat))
        kinds = ((tuple(each.shape), str(each.dtype).removeprefix("torch.")) for each in flat)
        return dict(zip(names, kinds, strict=True))

    def _try(self, case: ReplayCase) -> None:
        """Raise what the reference raises. To run a function of JAX by itself takes long: it compiles each step."""
        if self.asked.library == "jax":
            self.ways.takes(case.arrays)
        elif self._returned(case) is None:
            raise ReplayError(f"oracle='replay': {titled(self.asked.reference)}: {RETURNS_NONE}")

    def _returned(self, case: ReplayCase) -> Any:
        return self.asked.call(**{name: tensor_of(each, case.dtype) for name, each in case.arrays.items()})

    def replays(self, arrays: Mapping[str, NDArray[Any]]) -> Sequence[Replayed] | None:
        """Return what the outputs of a case are; None where the reference raises, such as of a singular matrix: what
        it is not meant for is not judged."""
        try:
            return replayed(self.ways, arrays)
        except Exception:  # whatever it raises
            return None

    def _drawn(self, dice: Dice, stream: Stream, dtype: str, spans: Mapping[str, Span]) -> ReplayCase:
        counts, fixed = self.asked.counts, self.asked.fixed
        every = dict.fromkeys(dim for dims in self.asked.dims.values() for dim in dims)
        names = [dim for dim in every if dim not in counts]
        sizes = {dim: max(self.multiple * dice.pick(_EXTENTS), self.least) for dim in names} | dict(fixed)
        sizes |= {other: sizes[one] for one, other in self.square}
        sizes = completed(counts, grown(counts, sizes, fixed))
        while max((int(np.prod([sizes[dim] for dim in dims])) for dims in self.asked.dims.values()), default=0) > _MOST:
            free = [dim for dim in names if dim not in fixed and sizes[dim] > self.multiple]
            if not free:
                break
            longest = max(free, key=lambda dim: sizes[dim])
            half = self.multiple * max(sizes[longest] // (2 * self.multiple), 1)
            together = [dim for pair in self.square if longest in pair for dim in pair]
            shorter = {**{dim: sizes[dim] for dim in (*names, *fixed)}, **dict.fromkeys([longest, *together], half)}
            shorter = completed(counts, grown(counts, shorter, fixed))
            if shorter == sizes:  # others that follow from it take no less
                break
            sizes = shorter
        arrays, recipes = dict[str, NDArray[Any]](), dict[str, str]()
        for name, dims in self.asked.dims.items():
            shape = tuple(sizes[dim] for dim in dims)
            if name in spans:
                drawn = spans[name].draw(stream.child(name), shape, min(sizes.values(), default=1))
                arrays[name] = made_so(self.kept.get(name, ()), drawn.astype(self.dtypes[name]), self.dtypes[name])
                recipes[name] = spans[name].recipe
                continue
            known = {each: recipe for each, recipe in self._menu(name, dims).items() if isinstance(recipe, Recipe)}
            recipes[name] = dice.pick([*known])
            rows, n = (int(np.prod(shape[:-1])), shape[-1]) if shape else (1, 1)
            values = known[recipes[name]].draw(RowSpec(rows, n, dtype), stream.child(name))
            arrays[name] = made_so(self.kept.get(name, ()), values.reshape(shape), dtype).astype(np.float64)
        return ReplayCase(arrays, recipes, dtype)

    def _menu(self, name: str, dims: Sequence[str]) -> Mapping[str, Any]:
        menu = self.values if isinstance(self.values, str) else self.values.get(name, "finite")
        one = menu == "finite" and len(dims) == 1 and len(self.asked.dims) > 1
        return MENUS["finite_factor" if one else menu].recipes


def meant_of(
    reference: Callable[..., Any],
    shapes: Mapping[str, Any] | str | None,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None,
    fixed: Mapping[str, int],
    values: Mapping[str, str] | str,
    floats: Sequence[str],
    dtypes: Mapping[str, str] | None = None,
    own: Own | None = None,
) -> Meant:
    """Return what is drawn for a reference. Raises UnreadableError."""
    refusal: UnreadableError | None = None
    for each in asked_of(reference, shapes, example_inputs, dtypes or {}, fixed, values, twice=True):
        if own is not None:
            return Meant(each, each.dtypes, tuple(floats), values, 1, 1, own)
        try:
            asked, drawn, kinds = taken(each)
        except UnreadableError as error:
            refusal = refusal or error
            continue
        return Meant(asked, kinds, tuple(floats), values, drawn.times, drawn.least if drawn.least > 1 else 1)
    assert refusal is not None
    raise refusal


def tensor_of(array: NDArray[Any], dtype: str) -> Any:
    """Return a tensor of torch, floats in that dtype."""
    import torch

    found = torch.from_numpy(array.copy())
    return found.to(getattr(torch, FORMATS[dtype].spelling)) if array.dtype.kind == "f" else found


def compared(
    wanted: Sequence[Replayed], returned: Sequence[NDArray[Any]], dtype: str, names: Sequence[str] = (),
    rows: Sequence[int] = (),
) -> Comparison:  # fmt: skip
    """Compare what a kernel returned with what a reference is, tensors of that dtype. Where they are these `rows` of
    larger ones, places are told as places in those."""
    if len(returned) != len(wanted):
        return Comparison(f"returned {counted(len(returned), 'output')}, where the reference has {len(wanted)}")
    judged, ratio = 0, 0.0
    for at, (got, one) in enumerate(zip(returned, wanted, strict=True)):
        output = names[at] if names else f"output {at}" if len(wanted) > 1 else "the output"
        if got.shape != one.value.shape:
            shapes = f"{list(got.shape)}, where the reference has {list(one.value.shape)}"
            return Comparison(f"{output} has the shape {shapes}")
        must, values = one.compared, got if one.places is None else one.places.elements(got)
        known = np.isfinite(must) & np.isfinite(one.allowed)
        width = width_of(one, dtype)
        judged += judged_in(one, dtype)
        with np.errstate(all="ignore"):
            far = np.abs(values - must)
            share = np.where(known & (far != 0.0), far / width, 0.0)
            if one.moved:  # every kernel has the same NaN and infinities there
                same = (values == must) | (np.isnan(values) & np.isnan(must))
                share = np.where((one.allowed == 0.0) & ~known & ~same, math.inf, share)
        if one.places is not None:
            late = one.places.first & known & (far == 0.0) & (got != one.value)
            share = np.where(late | ~one.places.exist(got), math.inf, share)
        if (wrong := ~(share <= 1.0)).any():
            return _worst(output, got, one, width, np.where(wrong, share, -1.0), judged, rows)
        ratio = max(ratio, float(share.max(initial=0.0)))
    return Comparison("", judged, ratio)


def judged_in(one: Replayed, dtype: str) -> int:
    """Return how many elements of an output are judged, tensors of that dtype."""
    known = np.isfinite(one.compared) & np.isfinite(one.allowed)
    most = np.abs(one.compared[known]).max(initial=0.0) / _CLEAR + 4 * SINGLE.tiny
    same = one.moved & ~known & (one.allowed == 0.0)  # every kernel has the same NaN and infinities there
    return int((width_of(one, dtype)[known] <= most).sum()) + int(same.sum())


def width_of(one: Replayed, dtype: str) -> NDArray[Any]:
    """Return how far elements of that dtype may be off."""
    if one.whole:
        return one.allowed
    must = one.compared
    return one.allowed + FORMATS[dtype].u * (np.abs(np.where(np.isfinite(must), must, 0.0)) + one.allowed)


def _worst(
    output: str, got: NDArray[Any], one: Replayed, width: NDArray[Any], share: NDArray[Any], judged: int,
    rows: Sequence[int],
) -> Comparison:  # fmt: skip
    at = np.unravel_index(int(np.argmax(np.where(np.isnan(share), np.inf, share))), got.shape)
    value, far = float(one.value[at]), float(width[at])
    told = [int(each) for each in at]
    told[:1] = [rows[each] for each in told[:1]] if rows else told[:1]
    place, is_got = f"{output}[{', '.join(map(str, told))}]", f"{float(got[at]):.8g}"
    count = int((share != -1.0).sum())
    others = f"{value - far:.8g} to {value + far:.8g}" if one.places is None else "another place of as much"
    is_only = one.places.first if one.places is not None else not math.isfinite(value)
    others = "" if is_only else f" (or {others})"
    wrong = f"{count:,} of {counted(got.size, 'element is', 'elements are')} wrong"
    words = f"wrong values\n    {place} = {is_got}, must be {value:.8g}{others}; {wrong}"
    return Comparison(words, judged, float(share[at]), (place, is_got, f"{value:.8g}", f"{far:.3g}"))
