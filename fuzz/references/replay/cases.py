"""The cases of a replay: inputs of a reference from which no formula is read, and a report of what was never drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.errors import UsageError
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.menus import MENUS
from fuzz.core.generate.observed import structural
from fuzz.core.generate.recipes import Recipe
from fuzz.references.asked import AskedReference, Shown, asked_of
from fuzz.references.derive import output_names
from fuzz.references.dims import NotTakenError, UnreadableError
from fuzz.references.examples import seen_of, square_in
from fuzz.references.library import taken
from fuzz.references.needs import InputNeeds, needs_of, well_defined
from fuzz.references.parameters import titled
from fuzz.references.replay.recipe import DrawnTensor, ReplayRecipe, Span
from fuzz.references.rerun import RUNS, TIMES, TIMES_NARROW, Replayed, Ways, draws_at_random, replayed, ways_of
from fuzz.references.residuals import LIMIT, LIMITS, equations_of
from fuzz.references.tracing import RETURNS_NONE
from fuzz.references.unrounded import UnroundedRun, calculated, calculated_by_jax, exact
from oracles.dtypes import CODED, COMPUTED, FORMATS, SINGLE
from oracles.formula.made import completed, grown
from oracles.operand import Kept

WEAKER = (
    f"oracle: replay, weaker than a formula: errors below what {RUNS} replays of the reference differ by that round at "
    f"random, {TIMES:g} times as coarsely as f32, are not seen, nor those where that may turn a decision"
)
NARROWER = (
    f"oracle: replay, weaker than a formula: errors below what {RUNS} replays of the reference differ by that round at "
    f"random, {TIMES_NARROW:g} times as coarsely as the 16 bits in which it calculates, are not seen"
)
EXACT = (
    "oracle: replay: the reference calculates with integers alone, so that outputs are compared exactly; where it "
    "raises, as for a division by zero, or divides the lowest integer by -1, nothing is judged"
)
UNROUNDED = (
    "oracle: replay: the reference only compares, selects, counts and moves floats, so that outputs are compared "
    "exactly; where it raises, nothing is judged"
)
SOLVES = (
    f"; solutions and factors are judged by residuals: at most {LIMIT:g} n u norm(A), {LIMITS['svd']:g} of singular "
    f"vectors and {LIMITS['eigh']:g} of eigenvectors, as in LAPACK's tests"
)
REPLAYED = COMPUTED
"""The dtypes of float tensors for which kernels are compared with a replay: all that kernels calculate in."""
_EXTENTS = (4, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257)
_LONG = (320, 512, 1000, 1024, 2048, 4096)
"""More extents for references of integers alone, which are run once for each case: sums of many overflow."""
_MOST = 1 << 13
"""The most elements of a tensor, since each case is replayed some twenty times."""
_TRIES = 16
"""The most draws in a row for which a reference may raise before it counts as accepting none."""
_SPANNED = 6
"""The number of cases, with different extents, on which a range of integers is tried."""
_SAME = 4
"""The number of first cases on which the reference is run twice, to find random results. One case may have a single
element, which dropout keeps both times. Inputs that come with a reference are large: one is enough."""
_ODD = ("one_nan", "one_inf")
"""The recipes that are drawn three times as often where any values are asked for, since 50 cases might have no NaN."""
_RANDOM = "draws at random, so no result of it is right or wrong: make what it draws an input"
_COMPILED = 12
"""The number of sets of extents that cases have if the reference is compiled for each set, as in JAX."""
_LARGEST = 2**53
"""The largest integer that is drawn beside floats: outputs are compared in float64, which has all integers up to it."""
_MILD = 8
"""The magnitude of integers with which a reference of integers alone is tried first."""


def spans_of(dtype: str, shown: Shown | None, *, alone: bool = False) -> Sequence[Span]:
    """Return the ranges from which an integer tensor may be drawn, the widest first. Codes and integers of 16 bits are
    numbers, and other integers places, unless examples show integers that are no places or the reference takes integers
    `alone`. If no example is negative, no range is."""
    places = [Span(0), Span(1)]
    if dtype == "bool" or (shown is not None and (shown.low, shown.high) == (0, 1)):
        return [Span(0, 1)]  # flags
    if not alone and dtype not in CODED and np.iinfo(dtype).bits > 16 and (shown is None or shown.are_places):
        return places
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if alone and (shown is None or shown.low < 0):  # without its lowest number, a dividend can be divided by -1
        both = dict.fromkeys([(low, high), (low + 1 if low else low, high)])
        return [*(Span(*each, skips_zero=skips) for each in both for skips in (False, True)), *places]
    low, high = (low, high) if alone else (max(low, -_LARGEST), min(high, _LARGEST))
    if shown is None:
        return [Span(low, high), Span(low, high, skips_zero=True), *places]
    low = low if shown.low < 0 else min(shown.low, 0)
    ends = [(low, high), (shown.low, shown.high)]
    return [*(Span(*each, skips_zero=skips) for each in ends for skips in (False, True)), *places]


def _mild(dtype: str) -> Span:
    """Return the range of small integers other than zero, by which much can be divided or shifted."""
    low = -_MILD if dtype != "bool" and np.iinfo(dtype).min < 0 else 1
    return Span(0, 1) if dtype == "bool" else Span(low, _MILD, skips_zero=True)


def accepted(spans: Sequence[Span], refusals: Callable[[Span], int]) -> Span:
    """Return the first of the ranges for which a reference raises least often."""
    fewest: tuple[int, Span] | None = None
    for each in spans:
        count = refusals(each) if len(spans) > 1 else 0
        if fewest is None or count < fewest[0]:
            fewest = count, each
        if not count:
            break
    assert fewest is not None
    return fewest[1]


@dataclass
class Came:
    """A record of the values that have been drawn so far."""

    dtypes: set[str] = field(default_factory=set)
    low: dict[str, float] = field(default_factory=dict)
    high: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, np.dtype[Any]] = field(default_factory=dict)
    nan: bool = False
    infinite: bool = False
    magnitudes: tuple[float, float] = (math.inf, 0.0)
    extents: tuple[int, int] = (1 << 62, 0)

    def note(self, arrays: Mapping[str, NDArray[Any]], dtype: str) -> None:
        """Note the inputs of a case whose floats have this dtype."""
        for name, each in arrays.items():
            self.extents = min(self.extents[0], *each.shape, 1 << 62), max(self.extents[1], *each.shape, 0)
            self.kinds[name] = each.dtype
            self.nan |= bool(np.isnan(each).any())
            self.infinite |= bool(np.isinf(each).any())
            known = each[~np.isnan(each)]
            if known.size:
                self.low[name] = min(self.low.get(name, math.inf), known.min())
                self.high[name] = max(self.high.get(name, -math.inf), known.max())
            if each.dtype.kind == "f":
                self.dtypes.add(dtype)
                sizes = np.abs(known[np.isfinite(known) & (known != 0.0)])
                least, most = self.magnitudes
                self.magnitudes = min(least, sizes.min(initial=math.inf)), max(most, sizes.max(initial=0.0))

    def never(self, dtypes: Sequence[str]) -> str:
        """Return one line about values and extents never drawn, and those of `dtypes` that no float had."""
        floats = [name for name, kind in self.kinds.items() if kind.kind == "f"]
        whole = {name: np.iinfo(kind) for name, kind in self.kinds.items() if kind.kind in "iu"}
        specials = [word for word, came in (("NaN", self.nan), ("infinities", self.infinite)) if not came and floats]
        signed = [*floats, *(name for name, of in whole.items() if of.min < 0)]
        negative = [name for name in signed if self.low.get(name, 0.0) >= 0]
        ends = {name: (int(self.low[name]), int(self.high[name])) for name in whole if name in self.low}
        missing = [each for each in dtypes if each not in self.dtypes] if floats else []
        parts = [", ".join(missing), ", ".join(specials), f"negative {', '.join(negative)}" if negative else ""]
        for name, (low, high) in ends.items():
            parts += [f"{name} outside {low} to {high}"] if (low, high) != (whole[name].min, whole[name].max) else []
        if self.magnitudes[1] > 0.0:
            parts.append("magnitudes outside {:.1e} to {:.1e}".format(*self.magnitudes))
        parts.append("extents outside {} to {}".format(*self.extents))
        return f"never drawn: {'; '.join(filter(None, parts))}"


class ReplayError(UsageError):
    """A reference that cannot be replayed. The message states the reason."""


@dataclass(frozen=True)
class ReplayCase:
    """One set of inputs, by the reference's tensors."""

    arrays: Mapping[str, NDArray[Any]]
    """The inputs by name, floats as float64."""
    recipes: Mapping[str, str]
    dtype: str
    """The dtype in which a kernel gets the floats."""
    drawn: ReplayRecipe

    @property
    def elements(self) -> int:
        """The number of elements of all inputs."""
        return sum(each.size for each in self.arrays.values())


Own = Callable[[int], Mapping[str, NDArray[Any]]]
"""A function that draws the inputs that come with a reference, for a seed, with floats as float64."""


@dataclass(frozen=True)
class Meant:
    """A reference, and the description of the inputs that are drawn for it."""

    asked: AskedReference
    dtypes: Mapping[str, str]
    """The dtype of each tensor, by torch's name."""
    floats: Sequence[str]
    """The dtypes in which a kernel gets floats."""
    values: Mapping[str, str] | str
    multiple: int
    least: int
    own: Own | None = None
    """The function that draws the inputs which come with the reference. If given, no others are drawn."""
    kept: Mapping[str, Kept] = field(default_factory=dict)
    """The properties that the values of tensors are made to have."""
    square: Sequence[tuple[str, str]] = ()
    """Pairs of dimensions with equal extents."""

    @cached_property
    def spans(self) -> Mapping[str, Span]:
        """The range from which each integer tensor is drawn: the widest one that the reference accepts."""
        integers = [name for name, dtype in self.dtypes.items() if dtype == "bool" or "int" in dtype]
        found = dict.fromkeys(integers, Span(0))
        mild = {name: _mild(self.dtypes[name]) for name in integers}
        if self.is_whole and not self._refusals(mild):
            found = mild

        def refusals(name: str, span: Span) -> int:
            return self._refusals({**found, name: span})

        for name in integers:
            alone = self.is_whole and bool(self.asked.dims.get(name))  # a number may be the count of a loop
            candidates = spans_of(self.dtypes[name], self.asked.shown.get(name), alone=alone)
            found[name] = accepted(candidates, partial(refusals, name))
        return found

    @property
    def is_whole(self) -> bool:
        """Whether the reference takes tensors of integers and flags alone."""
        return not any("float" in each or "complex" in each for each in self.dtypes.values())

    @cached_property
    def is_exact(self) -> bool:
        """Whether the reference rounds nothing in a case, so that outputs must equal its own. Raises ReplayError if it
        accepts no case."""
        if self.asked.library == "jax" and not self.is_whole:
            return False
        try:
            return self._unrounded(next(self._taken(0, tied=False)).arrays) is not None
        except ReplayError:
            raise
        except Exception:  # it casts some tensors to f32, and takes no f64 beside them
            return False

    @property
    def _unrounded(self) -> Callable[..., UnroundedRun | None]:
        return partial(calculated_by_jax if self.asked.library == "jax" else calculated, self.asked.call)

    @property
    def guarantee(self) -> str:
        """The sentence about what judging by this reference does not see."""
        if self.is_exact:
            return EXACT if self.is_whole else UNROUNDED
        unit = self.ways.unit(next(self._taken(0, tied=False)).arrays)
        return f"{WEAKER if unit == SINGLE.u else NARROWER}{SOLVES if self.needs.solves else ''}"

    @cached_property
    def needs(self) -> InputNeeds:
        """What the reference needs of its inputs, as a few cases show it."""
        if self.asked.library != "torch" or self.own is not None:
            return InputNeeds()
        streams = [Stream(number).child("needs") for number in range(_SPANNED)]
        spans = {
            name: Span(0, 1 if dtype == "bool" else None) for name, dtype in self.dtypes.items() if "float" not in dtype
        }
        drawn = (self._drawn(Dice(each), each.child("values"), self.floats[0], spans, InputNeeds()) for each in streams)
        return needs_of(self.asked.call, [each.arrays for each in drawn])

    def _refusals(self, spans: Mapping[str, Span]) -> int:
        """Return the number of cases, of `_SPANNED`, with integers from these ranges for which the reference raises."""
        count = 0
        for number in range(_SPANNED):
            stream = Stream(number).child("spans")
            try:
                self._try(self._drawn(Dice(stream), stream.child("values"), self.floats[0], spans, self.needs))
            except Exception:  # a reference may raise anything
                count += 1
        return count

    @cached_property
    def ways(self) -> Ways:
        """The ways in which the reference is run."""
        return ways_of(self.asked.call, self.asked.library)

    def cases(self, seed: int) -> Iterator[ReplayCase]:
        """Yield cases without end. Raises ReplayError if the reference accepts none, or returns random results."""
        for number, case in enumerate(self._taken(seed)):
            if number < (_SAME if self.own is None else 1) and self._is_random(case):
                raise ReplayError(f"{titled(self.asked.reference)} {_RANDOM}")
            yield case

    def _is_random(self, case: ReplayCase) -> bool:
        try:
            return draws_at_random(self.ways, case.arrays)
        except Exception:  # raised in float64: such a case is not judged
            return False

    def _taken(self, seed: int, *, tied: bool = True) -> Iterator[ReplayCase]:
        """Yield cases that the reference accepts; `tied`, with equal elements in every second one if it compares."""
        if self.own is not None:
            for number in count():
                recipe = ReplayRecipe(Stream(seed).child(f"own {number}").key, self.floats[0])
                arrays = self.own(recipe.key)
                yield ReplayCase(arrays, dict.fromkeys(arrays, "its own"), recipe.dtype, recipe)
        refused, singular, number, tied = 0, 0, 0, tied and self.is_exact and not self.is_whole
        while True:
            which = number % _COMPILED if self.asked.library == "jax" else number
            dtype = self.floats[number % len(self.floats)]
            dice = Dice(Stream(seed).child(f"case {which}"))
            case = self._drawn(dice, Stream(seed).child(f"values {number}"), dtype, self.spans, self.needs, tied=tied)
            number += 1
            try:
                self._try(case)
            except ReplayError:
                raise
            except Exception as error:  # the reference does not accept the case
                refused += 1
                if refused > _TRIES:
                    raise ReplayError(
                        f"oracle='replay': the reference raises {type(error).__name__}: {error}"
                    ) from error
                continue
            refused = 0
            singular = singular + 1 if self.needs.solves and singular < _TRIES and self._is_singular(case) else 0
            if not singular:
                yield case

    def _is_singular(self, case: ReplayCase) -> bool:
        """Whether some matrix of a case is not judged: a right kernel may raise, as of a nearly singular one."""
        form = FORMATS[case.dtype]
        try:
            return not all(each.settled(form).all() for each in equations_of(self.asked.call, case.arrays))
        except Exception:  # raised in float64: such a case is not judged
            return True

    def outputs(self, case: ReplayCase) -> Mapping[str, tuple[tuple[int, ...], str]]:
        """Return the shape of each output, and its dtype by torch's name. Raises what the reference raises."""
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
        """Raise what the reference raises. A function of JAX is only traced: running it would compile each step."""
        if self.asked.library == "jax":
            self.ways.takes(case.arrays)
        elif self._returned(case) is None:
            raise ReplayError(f"oracle='replay': {titled(self.asked.reference)}: {RETURNS_NONE}")

    def _returned(self, case: ReplayCase) -> Any:
        with well_defined():
            return self.asked.call(**{name: tensor_of(each, case.dtype) for name, each in case.arrays.items()})

    def replays(self, arrays: Mapping[str, NDArray[Any]]) -> Sequence[Replayed] | None:
        """Return the replayed outputs of a case; None if the reference raises, as for a singular matrix: inputs for
        which it is not meant are not judged."""
        try:
            if self.is_exact and (found := exact(self._unrounded, arrays, self.ways)) is not None:
                return found
            known = equations_of(self.asked.call, arrays) if self.needs.solves else ()
            by_part = {at: each for each in known for at in each.parts}
            values = self.ways.values(arrays) if known else ()
            if values and len(by_part) == len(values):  # a residual needs no replays
                given = zip(values, (np.zeros(each.shape) for each in values), strict=True)
                return [Replayed(*each, equation=by_part[at]) for at, each in enumerate(given)]
            return [replace(each, equation=by_part.get(at)) for at, each in enumerate(replayed(self.ways, arrays))]
        except Exception:  # a reference may raise anything
            return None

    def _drawn(
        self,
        dice: Dice,
        stream: Stream,
        dtype: str,
        spans: Mapping[str, Span],
        needs: InputNeeds,
        *,
        tied: bool = False,
    ) -> ReplayCase:
        counts, fixed = self.asked.counts, self.asked.fixed
        every = dict.fromkeys(dim for dims in self.asked.dims.values() for dim in dims)
        names = [dim for dim in every if dim not in counts]
        extents = (*_EXTENTS, *_LONG) if self.is_whole else _EXTENTS
        sizes = {dim: max(self.multiple * dice.pick(extents), self.least) for dim in names} | dict(fixed)
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
            if shorter == sizes:  # others need this length
                break
            sizes = shorter
        tensors = dict[str, DrawnTensor]()
        for name, dims in self.asked.dims.items():
            shape = tuple(sizes[dim] for dim in dims)
            kept = (*self.kept.get(name, ()), *needs.kept.get(name, ()))
            if name in spans:
                places = min(sizes.values(), default=1)
                tensors[name] = DrawnTensor(shape, "", "", spans[name], places, self.dtypes[name], kept)
                continue
            menu = self._menu(name, dims)
            known = [each for each, recipe in MENUS[menu].recipes.items() if isinstance(recipe, Recipe)]
            known = [*known, *_ODD * 2] if menu == "any" else known
            if menu == "finite" and needs.solves and len(dims) > 1:
                # Methods that square the condition are right for most of the others.
                menu, known = "matrices", [*known, *MENUS["matrices"].often * (len(known) // 3)]
            tensors[name] = DrawnTensor(shape, menu, dice.pick(known), kept=kept)
        made = ReplayRecipe(stream.key, dtype, tensors, tuple(needs.marks), are_tied=tied and dice.one_in(2))
        return ReplayCase(made.arrays(), {name: each.words for name, each in tensors.items()}, dtype, made)

    def _menu(self, name: str, dims: Sequence[str]) -> str:
        menu = self.values if isinstance(self.values, str) else self.values.get(name, "finite")
        one = menu == "finite" and len(dims) == 1 and len(self.asked.dims) > 1
        return "finite_factor" if one else menu


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
    """Return the description of the inputs to draw for a reference. Raises UnreadableError."""
    refusal: UnreadableError | None = None
    for each in asked_of(reference, shapes, example_inputs, dtypes or {}, fixed, values, twice=True):
        if own is not None:
            return Meant(each, each.dtypes, tuple(floats), values, 1, 1, own)
        if each.keeps and not isinstance(refusal, NotTakenError):
            break
        try:
            asked, drawn, kinds = taken(each)
        except UnreadableError as error:
            refusal = refusal or error
            continue
        return Meant(asked, kinds, tuple(floats), values, drawn.times, drawn.least if drawn.least > 1 else 1)
    assert refusal is not None
    raise refusal


def keeping(meant: Meant, samples: Sequence[Mapping[str, Any]], fixed: Collection[str]) -> Meant:
    """Return the description with the structural properties that tensors always have in samples, and squareness."""
    dims = meant.asked.dims
    called = {name: meant.asked.called.get(name) or name for name in dims}
    kept = structural(seen_of(called, samples))
    shapes = {name: tuple(samples[0][called[name]].shape) for name in kept}
    return replace(meant, kept=kept, square=square_in(kept, dims, shapes, fixed))


def tensor_of(array: NDArray[Any], dtype: str) -> Any:
    """Return an array as a tensor of torch, with floats in this dtype."""
    import torch

    found = torch.from_numpy(array.copy())
    return found.to(getattr(torch, FORMATS[dtype].spelling)) if array.dtype.kind == "f" else found
