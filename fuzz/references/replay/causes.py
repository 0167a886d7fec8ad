"""Causes of failures that a replay finds: by experiments, as there is no formula to look into. A kernel is called again
with the cases of the search and with changed ones. A cause is told only if several failing cases show it and none that
was run, right or wrong, is against it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import Case
from fuzz.core.base.feature import Feature
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Pool
from fuzz.explain.rule.inducer import learn
from fuzz.explain.rule.rule import Trait, Traits, word
from fuzz.explain.rule.traits import MODULI
from fuzz.explain.rule.values import plain_traits
from fuzz.findings.book import FindingBook
from fuzz.references.guard import widened
from fuzz.references.needs import well_defined
from fuzz.references.replay.cases import ReplayCase, ReplayError
from fuzz.references.replay.elements import by_elements
from fuzz.references.replay.mends import by_mending
from fuzz.references.replay.oracle import Replay, ShownCause, compared, matching
from fuzz.references.replay.retrial import SEVERAL, TELLING, ReplayBench, ReplayRun, counts, with_values
from fuzz.references.replay.slips import Reference, changed
from fuzz.references.residuals import equations_of
from oracles.dtypes import FORMATS

_Experiment = Callable[[ReplayBench], ShownCause | None]


def _ignored(bench: ReplayBench) -> ShownCause | None:
    """Return an input whose other values change no bit of the outputs, and must."""
    told = [name for name, each in bench.wrong[0].case.arrays.items() if each.size and _is_ignored(bench, name)]
    if not told or len(told) == len(bench.wrong[0].case.arrays):
        return None
    names = " and ".join(told)
    return ShownCause("ignores", f"ignores {names}", f"other values of {names} change no bit of the outputs, and must")


def _is_ignored(bench: ReplayBench, name: str) -> bool:
    """Return whether other values of an input change no bit in cases that fail and in some that pass, and must in
    several. Runs that return NaN or infinities say nothing: they may be right for both."""
    runs, told = [*bench.wrong[: 2 * SEVERAL], *bench.right[: 2 * SEVERAL]], 0
    donors = [each.case.arrays[name] for each in bench.runs]
    for run in runs:
        [again] = bench.ran([with_values(run.case, name, _other(run.case.arrays[name], donors))])
        if again is None or not _are_same(run.got, again.got) or not all(np.isfinite(each).all() for each in run.got):
            return False
        wanted = ([each.value for each in one.wanted] for one in (run, again))
        told += bool(compared(again.wanted, run.got, run.case.dtype).wrong) and not _are_same(*wanted)
    return told >= SEVERAL


def _are_same(some: Iterable[NDArray[Any]], others: Iterable[NDArray[Any]]) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(some, others, strict=True))


def _other(values: NDArray[Any], others: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return other values of the same range: those of other cases, repeated as often as needed."""
    pool = [each.reshape(-1) for each in others if each.size]
    pool = [each for each in pool if each.size and not np.array_equal(np.resize(each, values.size), values.reshape(-1))]
    made = np.resize(np.concatenate(pool), values.size) if pool else values.reshape(-1)[::-1]
    return made.astype(values.dtype).reshape(values.shape)


def _as_other_reference(bench: ReplayBench) -> ShownCause | None:
    """Return another reference whose results the kernel returns in all cases, right and wrong ones."""
    call, first = bench.replay.meant.asked.call, bench.wrong[0]
    if bench.replay.meant.asked.library != "torch" or len(bench.wrong) < SEVERAL:
        return None
    some = max(bench.wrong[:SEVERAL], key=lambda each: each.case.elements)
    slips = changed(call, some.case.arrays)
    for words, other in chain(slips, _of_inputs(call, first.case), _of_outputs(call, first, bench.names)):
        if bench.spent() > bench.limit:
            return None
        if _explains(bench, other):
            said = f"its results are those of that in {counts(bench)}"
            return ShownCause("slip", f"wrong values, as if {words}", said)
    return None


def _explains(bench: ReplayBench, other: Reference) -> bool:
    telling = 0
    for run in [*bench.wrong, *bench.right]:
        found = _agrees(run, other)
        if found is None or (run.is_wrong and not found):
            return False
        telling += found
    return telling >= TELLING


def _agrees(run: ReplayRun, other: Reference) -> int | None:
    """Return the number of elements that are those of another reference and would be wrong of the right one; None if
    some element is not the other reference's."""
    with np.errstate(all="ignore"), suppress(Exception), well_defined():
        predicted = widened(other, run.case.arrays)
        known = equations_of(other, run.case.arrays) if any(each.equation for each in run.wanted) else ()
        by_part = {at: each for each in known for at in each.parts}
        telling = 0
        for at, (got, right, must) in enumerate(zip(run.got, run.wanted, predicted, strict=True)):
            if must.shape != got.shape:
                return None
            if (equation := by_part.get(at)) is not None:
                if right.equation is None or equation.wrong(run.got, FORMATS[run.case.dtype])[0]:
                    return None
                telling += got.size if run.found.wrong else 0
                continue
            if right.equation is not None:
                return None
            is_that, differs = matching(right, got, np.asarray(must), run.case.dtype)
            if not is_that.all():
                return None
            telling += int(differs.sum())
        return telling
    return None


_Change = Callable[[Any], Any]


def _rearranged(name: str, rank: int) -> Iterator[tuple[str, _Change]]:
    """Yield the ways to rearrange a tensor, in words with its name."""

    def moved(axis: int, step: int) -> _Change:
        return lambda x: x.roll(step, axis) if step else x.flip(axis)

    for axis in range(rank):
        along = f" along axis {axis}" if rank > 1 else ""
        yield f"{name} were in reverse order{along}", moved(axis, 0)
        yield f"each place of {name} held the element one further{along}", moved(axis, -1)
        yield f"each place of {name} held the element one before{along}", moved(axis, 1)
    if rank > 1:
        yield f"{name} were transposed", lambda x: x.mT


def _of_inputs(call: Reference, case: ReplayCase) -> Iterator[tuple[str, Reference]]:
    """Yield references that take an input otherwise."""

    def by(name: str, change: _Change) -> Reference:
        return lambda **tensors: call(**{**tensors, name: change(tensors[name])})

    def exchanged(one: str, other: str) -> Reference:
        return lambda **tensors: call(**{**tensors, one: tensors[other], other: tensors[one]})

    for name, each in case.arrays.items():
        ways = [*_rearranged(name, each.ndim), (f"{name} had no signs", lambda x: x.abs())]
        if each.dtype.kind == "f":
            ways.append((f"{name} had 0 in place of NaN", lambda x: x.nan_to_num(0.0, math.inf, -math.inf)))
        yield from ((words, by(name, change)) for words, change in ways)
    for one, other in combinations(case.arrays, 2):
        if case.arrays[one].ndim == case.arrays[other].ndim and case.arrays[one].dtype == case.arrays[other].dtype:
            yield f"{one} and {other} were exchanged", exchanged(one, other)


def _of_outputs(call: Reference, first: ReplayRun, names: Sequence[str]) -> Iterator[tuple[str, Reference]]:
    """Yield references that return something else of their result."""

    def by(at: int, change: _Change) -> Reference:
        def called(**tensors: Any) -> Any:
            found = call(**tensors)
            if not isinstance(found, (tuple, list)):
                return change(found)
            return [change(each) if at == place else each for place, each in enumerate(found)]

        return called

    for at, (name, each) in enumerate(zip(names, first.got, strict=True)):
        ways = [(f"{name} had the other sign", lambda y: -y), *_rearranged(name, each.ndim)]
        yield from ((words, by(at, change)) for words, change in ways)


def _turned_back(bench: ReplayBench) -> ShownCause | None:
    """Return an output that is right once it is transposed, where factors have more than one right value."""
    for at, first in enumerate(bench.wrong[0].got):
        fixed = [_turned(run, at) for run in bench.wrong] if first.ndim > 1 else []
        if len(fixed) >= SEVERAL and all(fixed):
            name = bench.names[at]
            return ShownCause(
                "turned", f"returns {name} transposed", f"turned back, {name} is right in {counts(bench)}"
            )
    return None


def _turned(run: ReplayRun, at: int) -> bool:
    got = [np.swapaxes(each, -1, -2) if place == at else each for place, each in enumerate(run.got)]
    return not compared(run.wanted, got, run.case.dtype).wrong


def _by_rule(bench: ReplayBench) -> ShownCause | None:
    """Return a rule of extents and values that says of each case whether it fails, also of further cases."""
    if min(len(bench.wrong), len(bench.right)) < SEVERAL or bench.replay.meant.asked.counts:
        return None
    free = {dim: None for dims in bench.replay.meant.asked.dims.values() for dim in dims}
    for dim in (each for each in free if each not in bench.replay.meant.asked.fixed):
        around = [bench.resized(bench.wrong[0].case, dim, extent) for extent in _SWEPT]
        for some in (around[:_AT_ONCE], around[_AT_ONCE:]):
            if bench.spent() > bench.limit:
                return None
            bench.runs += [run for run in bench.ran(some) if run is not None]
    drawn = bench.replay.meant.cases(bench.replay.seed + 1)
    for _ in range(_ROUNDS):
        learned = learn([_traits(bench, each.case) for each in bench.runs], [each.is_wrong for each in bench.runs])
        if not learned.exact or bench.spent() > bench.limit:
            return None
        more = [each for each in bench.ran([next(drawn) for _ in range(_FURTHER)]) if each is not None]
        told = [(learned.holds(_traits(bench, each.case)), each.is_wrong) for each in more]
        bench.runs += more
        if all(one == other for one, other in told) and {one for one, _ in told} == {True, False}:
            said = "; or ".join(str(each) for each in (learned.rule, *learned.others))
            agree = f"{counts(bench)} agree; {len(told)} of them came after it was learnt"
            return ShownCause("rule", f"wrong values when {said}", agree)
    return None


_ROUNDS, _FURTHER = 3, 32
"""The number of rounds in which further cases may refute a rule, and of cases in each. Chosen, not measured."""
_SWEPT = (*range(1, 18), 24, 31, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 129)
"""The extents of each dimension with which the smallest failing case is run: else blocks of 2 and of 4 look alike."""
_AT_ONCE = 12


def _traits(bench: ReplayBench, case: ReplayCase) -> Traits:
    """Return the traits of a case: extents by the reference's names for them, and values."""
    found, sizes = dict[Feature, Trait](), dict[str, int]()
    for name, dims in bench.replay.meant.asked.dims.items():
        sizes.update(zip(dims, case.arrays[name].shape, strict=True))
    for dim, extent in sizes.items():
        found[Feature("extent", dim)] = extent
        found |= {Feature("remainder", dim, operand=each): extent % each for each in MODULI}
    for (one, a), (other, b) in combinations(sizes.items(), 2):
        found |= {Feature("compared", one, how, other): word(holds)
                  for how, holds in (("=", a == b), (">", a > b), ("<", a < b))}  # fmt: skip
    for name, each in case.arrays.items():
        if each.size:
            rows = each.astype(np.float64).reshape(-1, each.shape[-1] if each.ndim else 1)
            found |= {of: value for of, value in plain_traits(name, rows) if of.kind != "magnitude"}
    return found


_EXPERIMENTS: tuple[_Experiment, ...] = (
    _ignored, _as_other_reference, _turned_back, by_elements, by_mending, _by_rule,
)  # fmt: skip
"""The experiments, the one that says most first."""


_MOST_S = 6.0
"""The most seconds for causes: those of the tables took up to 2 s, and a slow reference shows no more of them later."""


def explain_replay(replay: Replay, pool: Pool, book: FindingBook, seconds: float) -> None:
    """Look for the causes of the wrong values in a book, in this many processor seconds, or six, at most."""
    failing = [each for each in book.buckets.values() if each.judgement.verdict is Verdict.FAIL_NUMERIC]
    for bucket in failing if replay.meant.own is None and not replay.rows else ():
        bench = ReplayBench(replay, bucket.judgement.target, pool, min(seconds, _MOST_S) / len(failing))
        if (cause := _cause_of(bench, _drawn_of(bucket.case, replay))) is not None:
            replay.causes[bucket.judgement.target, bucket.case.digest] = cause


def _drawn_of(case: Case, replay: Replay) -> ReplayCase:
    place = case.origin.number - 1
    recipe = replay.drawn[place]
    return ReplayCase(recipe.arrays(), replay.recipes[place], recipe.dtype, recipe)


def _cause_of(bench: ReplayBench, first: ReplayCase) -> ShownCause | None:
    [run] = bench.ran([first])
    if run is not None and not run.is_wrong:
        return ShownCause("again", "wrong values, but not when it is called again", "the same inputs then pass")
    if run is None:
        return None
    bench.runs.append(run)
    with suppress(ReplayError):
        bench.gather()
        [again] = bench.ran([first])
        if again is not None and again.found.wrong != run.found.wrong:
            return ShownCause("again", "wrong values, not the same in each call", "the same inputs gave others later")
        for each in _EXPERIMENTS:
            if bench.spent() > bench.limit:
                break
            if (cause := each(bench)) is not None:
                return cause
    return None
