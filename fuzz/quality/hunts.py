"""How many cases it takes to find planted bugs: without guidance, with it, and with that of Hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis import target as climb

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.kernel import Kernel, capabilities_of
from fuzz.base.outcome import Outcome
from fuzz.base.verdict import Verdict
from fuzz.execute.pool import WorkerPool
from fuzz.generate.plan import plan
from fuzz.generate.realise import realise
from fuzz.generate.relatives import filled
from fuzz.generate.search import Search, batches
from fuzz.generate.sketch import Sketch, sketches
from fuzz.judge.judge import EntryJudge, Judgement
from fuzz.laws.registry import Entry
from fuzz.uses.search.schedule import one_by_one
from fuzz.uses.search.turn_runner import Terms, TurnRunner

Found = Mapping[str, int | None]
"""The number of the first case that finds the bug, by target; None where no case does."""
_EXAMPLES = 200
"""The number of examples of a round: Hypothesis draws half of them, then climbs from the best for each label."""


@dataclass(frozen=True)
class Hunt:
    """Searches for planted bugs of one base, each on one target, whose workers are in `pool`."""

    pool: WorkerPool
    targets: Sequence[Target]
    limit: int
    """One search tries at most this many cases."""

    def unguided(self, seed: int) -> Found:
        """All of them in one search: its cases do not depend on what was judged."""
        tally = _Tally(self.targets, self.limit)

        kernel = self.targets[0].kernel
        for made in batches(Search(kernel.op, seed, [kernel])):
            cases = [each.case for each in made]
            for case, outcomes in zip(cases, self.pool.submit(cases).outcomes(), strict=True):
                tally.count(_judged(case, outcomes, self.targets))
            if tally.is_done:
                break
        return tally.found

    def guided(self, seed: int) -> Found:
        """Each in a search of its own."""
        return self._one_by_one(lambda target, tally: self._guided(target, seed, tally))

    def by_hypothesis(self, seed: int) -> Found:
        """Each in a search of its own."""
        return self._one_by_one(lambda target, tally: self._by_hypothesis(target, seed, tally))

    def _one_by_one(self, hunt: Callable[[Target, _Tally], None]) -> Found:
        found: dict[str, int | None] = {}
        for target in self.targets:
            tally = _Tally([target], self.limit)
            hunt(target, tally)
            found |= tally.found
        return found

    def _guided(self, target: Target, seed: int, tally: _Tally) -> None:
        def see(judge: EntryJudge) -> None:
            tally.count([judge.judge(target)] if target.id in judge.outcomes else [])

        kernel = target.kernel
        turn_runner = TurnRunner(
            self.pool, self.targets, Terms([kernel], groups=([target.id], self._others(target))), see
        )
        for _ in one_by_one(turn_runner, kernel.op, seed):
            if tally.is_done:
                return

    def _by_hypothesis(self, target: Target, seed: int, tally: _Tally) -> None:
        def score(case: Case) -> Mapping[str, float]:
            (outcomes,) = self.pool.submit([case], self._others(target)).outcomes()
            judgements = _judged(case, outcomes, [target])
            tally.count(judgements)
            if tally.is_done:
                raise _Done
            told = [(j.worst, j.ratio) for j in judgements if j.verdict is Verdict.PASS]
            return {check.output: ratio for check, ratio in told if check is not None and not check.blunt}

        _targeted(target.kernel.op, seed, score, [target.kernel])

    def _others(self, target: Target) -> list[str]:
        return [other.id for other in self.targets if other is not target]


class _Done(BaseException):
    """Ends a search by Hypothesis. Not an Exception, which it would take for a failing test."""


class _Tally:
    """Counts the cases of one search, until all is found or the limit is reached."""

    def __init__(self, targets: Sequence[Target], limit: int) -> None:
        self.found: dict[str, int | None] = {target.id: None for target in targets}
        self._limit = limit
        self._tried = 0

    def count(self, judgements: Sequence[Judgement]) -> None:
        """One case more; those after the last that counts are let be."""
        if self.is_done:
            return
        self._tried += 1
        for judgement in judgements:
            if judgement.verdict.is_finding and self.found[judgement.target] is None:
                self.found[judgement.target] = self._tried

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to find, or no case left."""
        return self._tried >= self._limit or None not in self.found.values()


def _judged(case: Case, outcomes: Mapping[str, Outcome], targets: Sequence[Target]) -> list[Judgement]:
    judge = EntryJudge(Entry(case), outcomes)
    return [judge.judge(target) for target in targets if target.id in outcomes]


def _targeted(
    op: str, run_seed: int, score: Callable[[Case], Mapping[str, float]], kernels: Iterable[Kernel] = ()
) -> None:
    """The search as Hypothesis would guide it: give cases of `op` to `score`, one by one, until it raises _Done;
    what it returns by label is climbed.

    No run uses it: every example waits until the one before it is judged, so that nothing can be run in batches, and
    none of its cases fills a coverage gap.
    """
    strategy = sketches(capabilities_of(kernels, op))

    def one_case(sketch: Sketch, full: bool) -> None:
        draw = plan(sketch)
        for label, value in score(realise(filled(draw) if full else draw)).items():
            climb(value, label=label)

    quiet = settings(
        max_examples=_EXAMPLES,
        database=None,
        derandomize=False,
        deadline=None,
        phases=[Phase.generate, Phase.target],
        suppress_health_check=list(HealthCheck),
    )
    round_number = 0
    try:
        while True:
            test = given(strategy, st.booleans())(one_case)
            quiet(seeded(1_000_003 * run_seed + round_number)(test))()
            round_number += 1
    except _Done:
        return
