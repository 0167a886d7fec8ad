"""The bench of a failure that a replay found: the kernel is called again, with the cases of the search and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import Case
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.outcome import Status
from fuzz.core.base.text import counted
from fuzz.core.execute.batch import Pool, outcomes_on
from fuzz.core.execute.spent import Spent
from fuzz.references.replay.cases import ReplayCase
from fuzz.references.replay.oracle import Comparison, Replay, case_of, compared, judged_in
from fuzz.references.rerun import Replayed

_CASES, _MORE = 40, 160
"""The number of the search's cases that are run again, and of more that are drawn until enough of them fail. Chosen."""
_VARIED = 4
"""The number of variants of failing cases, with the same elements in another order, that are run too: rare values such
as NaN then stand in several places. Chosen."""
_LARGEST = 1 << 14
"""The most elements of such a case."""
SEVERAL = 3
"""The least number of failing cases, and of passing ones where a cause says which pass, that a cause needs."""
TELLING = 8
"""The least number of elements in which another reference must differ from the right one. Chosen, not measured."""


@dataclass(frozen=True)
class ReplayRun:
    """One run of a kernel with its judgement."""

    case: ReplayCase
    got: Sequence[NDArray[Any]]
    wanted: Sequence[Replayed]
    found: Comparison

    @property
    def is_wrong(self) -> bool:
        """Whether the replay says so."""
        return bool(self.found.wrong)


@dataclass
class ReplayBench:
    """A kernel that failed on a target, the means to call it, and what it returned so far."""

    replay: Replay
    target: str
    pool: Pool
    limit: float
    """The seconds for all experiments, of `spent`; half of them for running cases of the search again."""
    runs: list[ReplayRun] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)

    @property
    def wrong(self) -> Sequence[ReplayRun]:
        """The failing runs, the smallest first."""
        return sorted((each for each in self.runs if each.is_wrong), key=lambda each: each.case.elements)

    @property
    def names(self) -> Sequence[str]:
        """The names of the outputs."""
        return [each.name for each in self.replay.op.outputs]

    @property
    def right(self) -> Sequence[ReplayRun]:
        """The passing runs."""
        return [each for each in self.runs if not each.is_wrong]

    def ran(self, cases: Sequence[ReplayCase]) -> list[ReplayRun | None]:
        """Return the runs of cases; None where the kernel returns nothing or the replay decides nothing."""
        made = list[tuple[Case, Sequence[Replayed]] | None]()
        for each in cases:
            try:
                own = case_of(each, self.replay.meant.outputs(each), self.replay.op, 0, 1)
                wanted = self.replay.replays(own)
            except Exception:  # a reference may raise anything
                wanted = None
            decides = wanted is not None and any(judged_in(one, each.dtype) for one in wanted)
            made.append((own, wanted) if wanted is not None and decides else None)
        outcomes = iter(outcomes_on(self.target, self.pool, [each[0] for each in made if each is not None]))
        return [None if one is None else self._run(each, *one, next(outcomes))
                for each, one in zip(cases, made, strict=True)]  # fmt: skip

    def _run(self, drawn: ReplayCase, case: Case, wanted: Sequence[Replayed], outcome: Any) -> ReplayRun | None:
        if outcome is None or outcome.status is not Status.RAN or outcome.fault is not None or outcome.unwritten:
            return None
        arrays = [from_bits(outcome.outputs[name], of.dtype, of.layout.shape) for name, of in case.outputs.items()]
        got = [each.astype(np.float64) if each.dtype.kind not in "iub" else each for each in arrays]
        return ReplayRun(drawn, got, wanted, compared(wanted, got, drawn.dtype, [*case.outputs]))

    def gather(self) -> None:
        """Run cases of the search, more until enough fail, and variants of those that do."""
        first = self.runs[0].case
        drawn = self.replay.meant.cases(self.replay.seed)
        for number in range(_CASES + _MORE):
            enough = min(len(self.wrong), max(len(self.right), number // 2)) >= 2 * SEVERAL
            if self.spent() > self.limit / 2 or (number >= _CASES and enough):
                break
            each = next(drawn)
            if each.elements <= _LARGEST and each.drawn.key != first.drawn.key:
                self.runs += [run for run in self.ran([each]) if run is not None]
        varied = [self._varied(run.case, seed) for run in self.wrong[: 2 * SEVERAL] for seed in range(_VARIED)]
        self.runs += [run for run in self.ran(varied) if run is not None]

    def _varied(self, case: ReplayCase, seed: int) -> ReplayCase:
        """Return a case with the elements of inputs in another order, where these need no order."""
        kept, dice = {**self.replay.meant.kept, **self.replay.meant.needs.kept}, np.random.default_rng(seed)
        others = {name: dice.permutation(each.reshape(-1)).reshape(each.shape) for name, each in case.arrays.items()
                  if name not in kept}  # fmt: skip
        return replace(case, arrays={**case.arrays, **others})

    def resized(self, case: ReplayCase, dim: str, extent: int) -> ReplayCase:
        """Return a case drawn in the same way, with another extent of a dimension."""
        dims, shapes = self.replay.meant.asked.dims, {name: each.shape for name, each in case.arrays.items()}
        sizes = {own: size for name in dims for own, size in zip(dims[name], shapes[name], strict=True)}
        sizes |= dict.fromkeys(
            [dim, *(each for pair in self.replay.meant.square if dim in pair for each in pair)], extent
        )
        tensors = {
            name: replace(each, shape=tuple(sizes[own] for own in dims[name]), places=min(sizes.values()))
            for name, each in case.drawn.tensors.items()
        }
        drawn = replace(case.drawn, tensors=tensors)
        return ReplayCase(drawn.arrays(), case.recipes, case.dtype, drawn)


def counts(bench: ReplayBench) -> str:
    """Return how many cases were run, in words."""
    wrong, right = len(bench.wrong), len(bench.right)
    return f"{counted(wrong, 'failing case')}" + (f" and {right} that pass" if right else "")


def with_values(case: ReplayCase, name: str, values: NDArray[Any]) -> ReplayCase:
    """Return a case with other values of an input."""
    return replace(case, arrays={**case.arrays, name: values})
