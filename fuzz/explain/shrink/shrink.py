"""Shrinking: Hypothesis makes a failing case small and plain, by cutting blocks out of it. A sweep then builds every
smaller case anew, with the same op, dtypes, layouts and shared memory, with the values of the shrunk case and with
several draws of others, to check that none fails in the same way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import database as stored
from hypothesis import strategies as st

from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.draw import GIVEN, Draw, Frame
from fuzz.core.generate.dims import USUAL_WORK
from fuzz.core.generate.variations import base_of, batch_of, extended, made, sized, with_values
from fuzz.core.judge.judge import Judgement
from fuzz.explain.shrink.reduction import SHARING, START, Choices, Label, Vector
from fuzz.explain.trial.trial import OutOfTimeError, Trials
from oracles.op import Extents
from oracles.operand import OUTER
from oracles.ops import OPS

_KEY = b"case"
_BATCH = 32
"""The number of cases of a sweep that are run at once."""
_ROUNDS = 3
"""The most rounds: after a sweep finds a smaller case, Hypothesis shrinks it again."""


def shrink(trials: Trials, case: Case) -> Case:
    """Return the smallest and plainest case that fails in the same way: fewest rows first, then smallest n, then
    plainest. If time runs out, return the smallest found so far. A case that does not fail alone is returned
    unchanged."""
    if not Frame(case).fits():
        return case
    small = _cut(trials, case)
    if trials.family.law is not None and trials.known.get(small.digest) is not None:
        # Luck decides whether two ways of calculating differ, so few of the present values may show it: others are
        # tried.
        with contextlib.suppress(OutOfTimeError):
            luckier = sweep(trials, small, LUCKY).smaller
            if luckier is not None:
                return _cut(trials, luckier)
    return small


def _cut(trials: Trials, case: Case) -> Case:
    """Return the smallest and plainest case that has values of the case itself, or plain ones."""
    choices = Choices(case)
    best = choices.whole
    with contextlib.suppress(OutOfTimeError):
        if not trials.fails(case):
            return case
        best = _with_plainest_memory(trials, choices, best)
        around = _beginning(choices, best, _worst(case, trials.judge([case])[0]))
        # Blocks of the drawn values: an element that stands out in a long row may not do so in a short one.
        seeds = around, _swept(trials, choices, around, _doubled)
        for _ in range(_ROUNDS):
            best = _by_hypothesis(trials, choices, [best, *seeds])
            smaller = _swept(trials, choices, best, ends_of)
            if smaller == best:
                break
            best = smaller
    return choices.apply(best)


def _with_plainest_memory(trials: Trials, choices: Choices, best: Vector) -> Vector:
    """Return the vector with the plainest sharing of memory with which the case still fails. This comes first: with few
    rows or columns, a plainer one might not fail."""
    for place, label in enumerate(choices.ranges):
        if label[0] in SHARING:
            plainer = ((*best[:place], value, *best[place + 1 :]) for value in range(best[place]))
            best = next((vector for vector in plainer if _fails(trials, choices, vector)), best)
    return best


def _beginning(choices: Choices, best: Vector, worst: tuple[tuple[int, ...], int, Extents]) -> Vector:
    """Return the vector for the whole case with the memory of `best`, and with blocks that begin at the worst
    element."""
    labels = zip(choices.ranges, best, choices.starting(*worst), strict=True)
    return tuple(kept if label[0] in SHARING else started for label, kept, started in labels)


def _worst(case: Case, judgement: Judgement | None) -> tuple[tuple[int, ...], int, Extents]:
    """Return the row indices and the column of the worst element, and its indices along all dimensions: a block that
    begins there keeps the failure with the fewest elements."""
    frame, check, op = Frame(case), judgement.worst if judgement is not None else None, OPS[case.op]
    batch, places = (0,) * len(frame.batch), dict[str, int]()
    if check is not None and check.worst_index is not None:
        dims = op.dims(check.output, len(check.worst_index), frame.axis).split()
        places = {dim: at for dim, at in zip(dims, check.worst_index, strict=True) if dim != OUTER}
        batch = tuple(at for dim, at in zip(dims, check.worst_index, strict=True) if dim == OUTER) or batch
    return (*batch, *(places.get(dim, 0) for dim in op.inner[:-1])), places.get(op.row, frame.n - 1), places


class _StillFailsError(Exception):
    """The case that Hypothesis tries fails too."""


def _by_hypothesis(trials: Trials, choices: Choices, seeds: Sequence[Vector]) -> Vector:
    """Return the vector to which Hypothesis shrinks the best of the seeds. The seeds are given as examples of an
    earlier run, which it repeats: alone, it would have to guess a dozen choices right at once to find a failing
    case. A version of Hypothesis that cannot be given examples shrinks nothing: the sweeps do."""
    failing = [vector for vector in dict.fromkeys(seeds) if _fails(trials, choices, vector)]
    best = min(failing)
    if (packed := getattr(stored, "choices_to_bytes", None)) is None:  # no public interface
        return best
    database = stored.InMemoryExampleDatabase()
    for vector in failing:
        # One choice is appended: Hypothesis does not shrink an example that is repeated exactly as stored.
        database.save(_KEY, packed((*vector, 0)))

    def attempt(vector: Vector) -> None:
        nonlocal best
        # When the time is over, nothing new fails any more, which ends the shrinking; known answers stay.
        with contextlib.suppress(OutOfTimeError):
            if _fails(trials, choices, vector):
                if vector < best:
                    best = vector
                    trials.watch(choices.apply(best))
                raise _StillFailsError

    strategy = st.tuples(*(st.integers(0, most) for most in choices.ranges.values()))
    phases = [Phase.reuse, Phase.generate, Phase.shrink]
    quiet = settings(
        database=database, phases=phases, deadline=None, suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False, print_blob=False, verbosity=Verbosity.quiet,
    )  # fmt: skip
    # Within one call of `quiet`: a seed alone would make Hypothesis ignore the database.
    test = quiet(seed(0)(given(strategy)(attempt)))
    test._hypothesis_internal_database_key = _KEY  # type: ignore[attr-defined]  # as hypothesis.find does
    with contextlib.suppress(_StillFailsError):
        test()
    return best


def _fails(trials: Trials, choices: Choices, vector: Vector) -> bool:
    try:
        return trials.fails(choices.apply(vector))
    except CaseError:
        return False


Chosen = Callable[[range], Iterable[int]]
"""A function that returns which of the smaller values of a choice are tried."""


def _doubled(every: range) -> list[int]:
    """Return the values of a choice that keep 1, 2, 4, 8, ... elements."""
    return [every[2**power - 1] for power in range(len(every).bit_length())]


def _swept(trials: Trials, choices: Choices, best: Vector, chosen: Chosen) -> Vector:
    """Return a vector with fewer rows, then with fewer columns, after trying the chosen smaller counts from 1 on.
    Shrinking alone may miss 63 below 1087 if only n mod 64 = 63 fails, so every count is tried in the end."""
    for label in choices.ranges:
        if label[0] in START:
            for vectors in batches(_smaller(choices, best, label, chosen), _BATCH):
                failing = _failing(trials, choices, vectors)
                if failing:
                    best = failing[0]
                    trials.watch(choices.apply(best))
                    break
    return best


def _smaller(choices: Choices, best: Vector, label: Label, chosen: Chosen) -> Iterator[Vector]:
    """Yield the vector with smaller values of one count. For each, the block begins at index 0, at the present first
    element, or ends at the present last element, or at the end of the dimension."""
    labels, most = list(choices.ranges), choices.ranges[label]
    count, start = labels.index(label), labels.index((START[label[0]], label[1]))
    last = min(best[start], most - best[count]) + best[count]
    for value in chosen(range(best[count])):
        for first in dict.fromkeys((0, best[start], last - value, most - value)):
            changed = np.array(best)
            changed[[count, start]] = value, first
            yield tuple(changed.tolist())


def _failing(trials: Trials, choices: Choices, vectors: Sequence[Vector]) -> list[Vector]:
    """Return the vectors whose cases fail, in order."""
    cases = []
    for vector in vectors:
        with contextlib.suppress(CaseError):
            cases.append((vector, choices.apply(vector)))
    judgements = trials.judge([case for _, case in cases])
    return [
        vector for (vector, case), judgement in zip(cases, judgements, strict=True) if trials.holds(case, judgement)
    ]


_T = TypeVar("_T")
Values = tuple[str, int]
"""A recipe that starts from given values, and its seed."""
_VALUES: tuple[Values, ...] = (
    (GIVEN, 0), ("ones", 0), ("integers", 0), ("spike", 1), ("large", 1), ("tiny", 1),
    *(("normal", seed) for seed in range(1, 9)),
)  # fmt: skip
"""The values that each size is tried with."""
LUCKY: tuple[Values, ...] = tuple(("normal", seed) for seed in range(100, 132))
"""Values for failures that depend on luck, such as whether two orders of a sum of three numbers differ."""
_LONG = 64
"""The length up to which longer rows are tried if there are fewer of them than in the case."""
_FIRST, _LAST = 1536, 64
"""The most extents that are tried, counted from 1, and counted down from the extent of the case."""
_SHORT, _FEW = 260, 3
"""The extent beyond which a case counts as long, and the number of draws that a long one is tried with."""
_QUICK = USUAL_WORK
"""The number of terms in its largest step (`Op.work`) beyond which a draw counts as long, too."""
_SWEPT = 64


@dataclass(frozen=True)
class Swept:
    """The result of a sweep: the number of runs, and the smallest case that fails."""

    runs: int
    smaller: Case | None
    """A failing case with fewer rows, or with as many shorter ones; None if there is none."""
    shown: bool = True
    """Whether the case itself fails when it is built anew; if it does not, passing smaller cases prove nothing."""

    @property
    def smallest(self) -> bool:
        """Whether no smaller case fails."""
        return self.shown and self.smaller is None


def sweep(trials: Trials, case: Case, values: Sequence[Values] = _VALUES) -> Swept:
    """Run every case smaller than `case`, the smallest first. Raises OutOfTimeError if the trials' time is over."""
    base = base_of(case)
    if not any(trials.fails(again) for again in _made([base])):
        return Swept(0, None, shown=False)
    runs = 0
    for cases in batches(_made(_smaller_than(base, values)), _SWEPT):
        for smaller, judgement in zip(cases, trials.judge(cases), strict=True):
            runs += judgement is not None
            if trials.holds(smaller, judgement):
                return Swept(runs, smaller)
    return Swept(runs, None)


def _smaller_than(base: Draw, values: Sequence[Values]) -> Iterator[Draw]:
    """Yield draws with fewer rows, up to the base's length or `_LONG`; then draws with as many, shorter rows."""
    yield from _with_smaller_extents(base, values)
    own = batch_of(base)
    sizes = [(rows, n) for rows in range(1, own) for n in ends_of(range(1, max(base.n, _LONG) + 1))]
    sizes += [(own, n) for n in ends_of(range(1, base.n))]
    for rows, n in sizes:
        small = replace(sized(base, rows), n=n)
        yield from _valued(small, values, is_short=n <= _SHORT)


def _with_smaller_extents(base: Draw, values: Sequence[Values]) -> Iterator[Draw]:
    """Yield draws in which one named dimension, other than the row's, is shorter."""
    for dim in (dim for dim in base.sizes if dim != OPS[base.op].row):
        for size in ends_of(range(1, base.sizes[dim])):
            yield from _valued(extended(base, {dim: size}), values, is_short=size <= _SHORT)


def _valued(small: Draw, values: Sequence[Values], *, is_short: bool) -> Iterator[Draw]:
    """Yield the draw with each of these values, or with a few if it is long."""
    chosen = values if is_short and small.work <= _QUICK else values[:_FEW]
    yield from (with_values(small, *each) for each in chosen)


def ends_of(every: range) -> list[int]:
    """Return all of these extents, or the first and the last ones if there are very many. So a long row is not searched
    in full: a threshold such as 32768 is found by halving."""
    return [*every[:_FIRST], *every[_FIRST:][-_LAST:]]


def _made(draws: Iterable[Draw]) -> Iterator[Case]:
    for draw in draws:
        with contextlib.suppress(CaseError):
            yield made(draw)


def batches(items: Iterator[_T], size: int) -> Iterator[list[_T]]:
    """Yield the items in lists of `size`."""
    while batch := list(islice(items, size)):
        yield batch
