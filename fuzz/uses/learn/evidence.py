"""Evidence: runs of one kernel, of an ordinary search and of cases that tell orders of sums apart."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fuzz.adapters.target import NotRun, Target
from fuzz.base.case import Case, CaseError
from fuzz.base.draw import GIVEN, Draw
from fuzz.base.outcome import Outcome, Status
from fuzz.execute.pool import Pool
from fuzz.generate.given import given_rows
from fuzz.generate.search import Search, batches
from fuzz.generate.storage import grids
from fuzz.generate.variations import base_of, made, of_dtype, sized
from fuzz.judge.fitting import Run
from oracles.dtypes import SINGLE
from oracles.op import Op
from oracles.ops import OPS

_LARGEST = 1 << 11
"""Runs of a search with more elements would take most of the time, and tell little more."""
_LONG = (63, 1023, 8191)
"""Lengths of sums with a tail for any number of lanes."""
_SMALL = (2.0**-24, 2.0**-12, -17.0)
"""Added one after the other to 1, none of 2^-24 changes an f32 sum: the error is that of a longest chain. The same are
the squares of 2^-12, and nearly so the exponentials of -17 beside that of 0."""
_BESIDE = 8
"""One batch of the search in so many is followed by such cases of its own."""


@dataclass
class KernelRuns:
    """What a kernel did."""

    runs: list[Run] = field(default_factory=list)
    cases: int = 0
    unjudged: Counter[str] = field(default_factory=Counter)
    """How many runs have no values to be judged, by what happened."""
    cut_short: bool = False
    """Whether time was over before all cases were run that were asked for."""

    @property
    def judged(self) -> int:
        """The number of judged runs."""
        return sum(each.times for each in self.runs)

    def add(self, case: Case, outcomes: Iterable[tuple[Target, Outcome]]) -> None:
        """What targets made of a case."""
        known: dict[object, Run] = {}
        for target, outcome in outcomes:
            run = Run(case, outcome, target=target)
            if run.query(target.contract) is None:
                if outcome.status is not Status.NOT_RUN:
                    self.unjudged[_words(outcome.status)] += 1
                continue
            first = known.setdefault((target.lanes, tuple(outcome.outputs.items())), run)
            first.times += first is not run
        self.runs += known.values()


def gathered(pool: Pool, targets: Sequence[Target], seed: int, most: int, over: Callable[[], bool]) -> KernelRuns:
    """Run cases until there are so many or time is over, or hardly any that is drawn is small enough."""
    found = KernelRuns()
    running = [each for each in targets if not isinstance(pool.statuses.get(each.id), NotRun)]
    if not running:
        return found
    kernel = running[0].kernel
    largest = _LARGEST + _always(OPS[kernel.op])
    for number, batch in enumerate(batches(Search(kernel.op, seed, [kernel]))):
        cases = [each.case for each in batch if 0 < each.case.elements <= largest]
        if number % _BESIDE == 0:
            cases += _telling(cases)
        cases = [case for case in cases if kernel.capability.accepts(case)][: most - found.cases]
        for case, outcomes in zip(cases, pool.submit(cases).outcomes(), strict=True):
            found.add(case, [(each, outcomes[each.id]) for each in running if each.id in outcomes])
        found.cases += len(cases)
        found.cut_short = found.cases < most and (over() or number >= most)
        if found.cases >= most or found.cut_short:
            break
    return found


def _always(op: Op) -> int:
    """The number of elements of tensors that always have as many, such as the weights of a module."""
    return sum(math.prod(op.fixed[dim] for dim in each.axes) for each in op.operands if {*each.axes} <= op.fixed.keys())


def _words(status: Status) -> str:
    return "wrote where it must not, or not at all" if status is Status.RAN else status.name.lower().replace("_", " ")


def _telling(cases: Sequence[Case]) -> list[Case]:
    """Cases with one large term before many small ones, in sums along rows or over them."""
    for case in cases:
        with contextlib.suppress(CaseError):
            neutral = {each.name: min(each.values, key=abs) for each in OPS[case.op].parameters if each.power}
            base = base_of(case).with_params(**neutral)  # such as eps, which would hide the sum
            drawn = [_along(base, n, small) for small in _SMALL for n in _LONG]
            drawn += [_over(base, n, small) for small in _SMALL[:2] for n in _LONG[:2]]
            made_of = [made(each) for draw in drawn for each in (draw, of_dtype(draw, SINGLE.name))]
            return list({each.digest: each for each in made_of}.values())
    return []


def _along(base: Draw, n: int, small: float) -> Draw:
    """One row of n, in all inputs that have the shape of the grid."""
    row = np.full((1, n), small)
    row[0, 0] = 0.0 if small < 0 else 1.0
    return _filled(sized(replace(base, n=n), 1), dict.fromkeys(grids(base), row))


def _over(base: Draw, rows: int, small: float) -> Draw:
    """Return a draw of `rows` rows of few elements; the first input is plain."""
    column = np.full((rows, 1), small)
    column[0, 0] = 1.0
    main = OPS[base.op].main
    return _filled(
        sized(replace(base, n=3), rows), {name: np.ones((1, 1)) if name == main else column for name in grids(base)}
    )


def _filled(draw: Draw, values: Mapping[str, NDArray[np.float64]]) -> Draw:
    parts = (
        replace(draw.part(name), recipe=GIVEN, given=given_rows(each))
        for name, each in values.items()
        if draw.part(name).given is not None
    )
    return replace(draw.with_parts(*parts), structured=True)
