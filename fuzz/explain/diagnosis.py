"""Diagnosis: a finding is attributed, shrunk and explained within limits of time. Every command uses this."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.case import Case
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Pool
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import Judgement
from fuzz.explain.attribute.attribution import attributed
from fuzz.explain.causes import kernels_within
from fuzz.explain.explanation import Counterfactual, Mechanism, Unsteady
from fuzz.explain.finding import Diagnosis, Finding, change
from fuzz.explain.rule.rule import Rule
from fuzz.explain.shrink.shrink import shrink
from fuzz.explain.stages.conclusion import Conclusion
from fuzz.explain.stages.counterfactuals import LEAST, Fitting, counterfactuals, fitting
from fuzz.explain.stages.explain import explain
from fuzz.explain.stages.mechanisms import LOSSY, mechanism
from fuzz.explain.trial.trial import (
    Family,
    KeepsStateError,
    Observed,
    Trials,
    reproduced,
    traits_for,
    unset_read,
    unsteady,
)

SECONDS = 45.0
"""The seconds for one finding, unless an option says otherwise. Chosen, not measured."""
_SHRINKING = 0.5
"""The largest share of the time for shrinking, so that as much is left for the rule. Chosen, not measured."""
_CHANGING = 0.3
"""The largest share of the remaining time for changing one thing at a time: kernels on a GPU may be compiled for each
change. Chosen, not measured."""
_MOST_RUNS = 20_000
"""The most runs for shrinking. A limit by count gives the same answer by a seed on fast and slow machines."""
_OTHER_FAILURES = 3
"""The further failing cases, the largest ones, on which all configurations of a kernel are tried before it is told that
only some of them fail. Chosen."""
_MOST_ELEMENTS = 1 << 12
"""The most elements of a case whose error is reported besides that of the smallest case. Chosen, not measured."""
_HANGING_S = 0.5
"""The limit in seconds of a case while a hang is shrunk, since each hanging case costs that much."""


def never() -> bool:
    """Return False: nothing asks for a stop."""
    return False


def silent(line: str) -> None:
    """Ignore a line of progress."""


@dataclass(frozen=True)
class TimeAllowance:
    """The time that one finding may take, and where its progress is reported."""

    seconds: float = SECONDS
    stop: Callable[[], bool] = never
    """A function that is called before each batch: whether to stop with what is known by then."""
    say: Callable[[str], None] = silent
    """A function that is told the progress in a few words, such as 'n 4097 -> 65'."""
    option: str = "--explain-time"
    """The option that gives a finding more time, or `NO_SHRINK`; '' if there is none."""
    shrinks: bool = True
    """Whether the case is shrunk and a rule is sought; otherwise the case is only tried with one thing changed."""
    clock: Callable[[], float] = time.monotonic
    """The clock in seconds by which the time is measured."""


@dataclass(frozen=True)
class TimeShares:
    """How the time for explaining is shared among findings."""

    least_s: float
    """The least seconds: with fewer left, no finding is begun."""
    most_s: float = math.inf
    """The most seconds that one finding may take."""
    queue: float = math.inf
    """The most waiting piles among which the remaining time is shared."""
    one_cause: float = 1.0
    """The share of a pile's time that one finding may take, since the pile may hold another cause."""
    option: str = ""
    """The option that gives more time; '' if there is none."""
    shrinks: bool = True
    """Whether findings are shrunk, see `TimeAllowance`."""
    later: bool = False
    """Whether findings for which there is no time now are explained later, while failures go on coming. Then a rule
    that is only half known separates no failures, since that would make several buckets of one bug, and a cause stays
    in the family by which failures are recognised."""
    clock: Callable[[], float] = time.monotonic
    """The clock in seconds by which the time is measured."""


@dataclass
class _Clock:
    """A clock that tells when to stop."""

    allowance: TimeAllowance
    stopped: bool = False

    def __post_init__(self) -> None:
        self._began = self.allowance.clock()

    @property
    def _gone(self) -> float:
        return self.allowance.clock() - self._began

    def part(self, share: float) -> float:
        """Return the seconds after the beginning at which a share of the remaining time will be used up."""
        gone = self._gone
        return gone + share * (self.allowance.seconds - gone)

    def over(self, seconds: float = math.inf) -> bool:
        over = self._gone > min(seconds, self.allowance.seconds) or self.allowance.stop()
        self.stopped = self.stopped or over
        return over


Workers = Callable[[Sequence[Target], float | None], AbstractContextManager[Pool]]
"""A function that starts workers for targets, with a limit in seconds for each case; None keeps the targets' limits."""


def new_workers(targets: Sequence[Target], limit: float | None) -> AbstractContextManager[Pool]:
    """Return a pool of new worker processes."""
    return WorkerPool(targets, limit=limit)


def diagnose(
    pool: Pool,
    targets: Sequence[Target],
    finding: Finding,
    allowance: TimeAllowance = TimeAllowance(),
    known: Sequence[Rule] = (),
    workers: Workers = new_workers,
    *,
    fresh: bool = False,
) -> Finding:
    """Return the finding with its diagnosis: attributed, shrunk and explained.

    `pool` holds the running workers of `targets`, among them that of the judgement; shrinking and probing use workers
    of their own. Failures that a rule in `known` covers belong to another finding, and prove nothing about this one.
    `fresh` means that the kernel is known to keep state, so that each probe runs in a new process; if this shows only
    now, the diagnosis starts again in that way.
    """
    case, judgement = finding.case, finding.judgement
    clock = _Clock(allowance)
    by_id = {target.id: target for target in targets}
    family = Family.of(judgement)
    target = by_id[judgement.target]
    seen: dict[str, Observed] = {}
    if not fresh:  # in a running worker any target may fail because of what it remembers
        seen = reproduced(pool, by_id, case, family.law)
        # If a rule of another finding covers the case, failures on other targets belong to that finding.
        ours = {n: e for n, e in seen.items() if not _is_known(case, by_id[n], family, known)}
        target = _cheapest(by_id, ours, judgement, family)
    siblings = [t for t in targets if t.kernel == target.kernel and not isinstance(pool.statuses.get(t.id), NotRun)]
    others = [sibling for sibling in siblings if not sibling.costly]
    limit = _HANGING_S if judgement.verdict is Verdict.TIMEOUT else None
    within = [] if fresh else _within(target, targets, seen)
    with workers([target], limit) as own, workers(within, limit) as theirs:
        others_of = tuple(Trials(theirs, each, family) for each in within)
        trials = Trials(own, target, family, explained=tuple(known), within=others_of, fresh=fresh)
        try:
            small, nearby, fits, conclusion = _shrunk_and_explained(trials, case, judgement, others, clock)
        except KeepsStateError:
            trials = replace(trials, fresh=True, known={})
            small, nearby, fits, conclusion = _shrunk_and_explained(trials, case, judgement, others, clock)
        shown = trials.confirmed(small)
        told = _mechanism(replace(trials, out_of_time=allowance.stop), small, fits)
        unset = unset_read(trials, small)
        changing = _unsteady(trials, small) if unset is None else None
    seen = reproduced(pool, by_id, small, family.law)  # again: a smaller case may fail on more
    if shown is not None and shown.verdict is Verdict.TIMEOUT and not _ran(seen.get(target.id)):
        # The running worker has hung too often to get more cases, and `own` has a shorter limit than a case.
        with workers([target], pool.limits.get(target.id)) as patient:
            seen |= reproduced(patient, by_id, small, family.law)
    verdicts = {name: each.judgement.verdict.value for name, each in seen.items()}
    within_its_limit = shown is not None and shown.verdict is Verdict.TIMEOUT and _ran(seen.get(target.id))
    if shown is None or not family.holds(shown) or within_its_limit:
        shown = seen[target.id].judgement if target.id in seen else judgement
    if not shown.verdict.is_finding:  # it fails only after other calls, so the first judgement stands
        chance = changing if small is case else None
        unknown = Diagnosis(
            case, None, Conclusion(None, None), len(trials.known), option=allowance.option, unsteady=chance
        )
        return Finding(case, judgement, verdicts, diagnosis=unknown)
    # In the workers that shrank it, it fails, even if the running worker gets no more cases.
    judgements = {**{name: each.judgement for name, each in seen.items()}, target.id: shown}
    attribution = attributed(target, targets, judgements, conclusion.rule)
    if attribution.configuration:
        alike = {name for name, each in judgements.items() if family.holds(each)}
        further = sorted(trials.failing(), key=lambda each: each.elements)[-_OTHER_FAILURES:]
        failing = {name for other in further for name in _failing(reproduced(pool, by_id, other, family.law), siblings)}
        attribution = attribution if failing <= alike else replace(attribution, configuration="")
    whole = allowance.shrinks and not clock.stopped
    diagnosis = Diagnosis(
        case,
        attribution,
        conclusion,
        len(trials.known),
        whole,
        allowance.option,
        fits,
        counterfactuals=nearby,
        mechanism=told,
        unset=unset,
        unsteady=changing,
        clearest=_clearest([judgement, *trials.known.values()], trials),
    )
    return Finding(small, shown, verdicts, diagnosis=diagnosis).held_against([case, *trials.failing()])


def _failing(seen: Mapping[str, Observed], siblings: Sequence[Target]) -> set[str]:
    """Return the targets of a kernel that fail on a case."""
    return {each.id for each in siblings if each.id in seen and seen[each.id].judgement.verdict.is_finding}


def _clearest(known: Sequence[Judgement | None], trials: Trials) -> Judgement | None:
    """Return the judgement with the largest err/budget, among cases that are small enough for quick exact values."""
    wrong = [
        each
        for each in known
        if each is not None
        and each.verdict is Verdict.FAIL_NUMERIC
        and isinstance(each.of, Case)
        and each.of.elements <= _MOST_ELEMENTS
        and not trials.is_explained(each.of)
    ]
    return max(wrong, key=lambda each: each.ratio, default=None)


def _ran(seen: Observed | None) -> bool:
    """Whether a running worker ran the case. Such a worker waits for the full limit, and so knows whether it hangs."""
    return seen is not None and seen.judgement.verdict is not Verdict.NOT_RUN


def _shrunk_and_explained(
    trials: Trials, case: Case, judgement: Judgement, others: Sequence[Target], clock: _Clock
) -> tuple[Case, tuple[Counterfactual, ...], Fitting | None, Conclusion]:
    """Return the smallest case, its counterfactuals, a contract that fits the known failures, and the rule, as far as
    there is time. Raises KeepsStateError."""
    if not clock.allowance.shrinks:
        trials.confirm(case)
        around = clock.part(_CHANGING)
        nearby = counterfactuals(replace(trials, out_of_time=lambda: clock.over(around)), case)
        return case, nearby, _declared_otherwise(trials, clock.allowance, (case, judgement)), Conclusion(None, None)
    say, ends, most = clock.allowance.say, clock.part(_SHRINKING), trials.runs + _MOST_RUNS
    trials.watch = lambda smaller: say(change(case, smaller))
    trials.out_of_time = lambda: clock.over(ends) or trials.runs > most
    small = shrink(trials, case)
    known = trials.known.get(small.digest)
    if known is not None and not known.verdict.is_finding:
        return small, (), None, Conclusion(None, None)
    replace(trials, family=replace(trials.family, clear=0.0, wide=True)).confirm(small)
    say(f"{change(case, small) or 'as it is'}, probing around it")
    # Processes of an emulator start slowly: one for each probe would leave no time to find the rule.
    near = [each for each in others if not (trials.fresh and each.emulated)]
    fits = _declared_otherwise(trials, clock.allowance, (case, judgement), (small, trials.confirmed(small)))
    failing = sum(each is not None and trials.family.holds(each) for each in trials.known.values())
    changed, nearby = clock.part(_CHANGING), tuple[Counterfactual, ...]()
    if known is None or known.verdict is not Verdict.TIMEOUT:  # a change that hangs too would take the whole limit
        nearby = counterfactuals(replace(trials, out_of_time=lambda: clock.over(changed)), small)
    conclusion = explain(replace(trials, out_of_time=clock.over), small, near)
    if fits is None and failing < LEAST:  # a kept case has no other failures until its rule is probed
        fits = _declared_otherwise(trials, clock.allowance, (case, judgement), (small, trials.confirmed(small)))
    return small, nearby, fits, conclusion


def _declared_otherwise(
    trials: Trials, allowance: TimeAllowance, *shown: tuple[Case, Judgement | None]
) -> Fitting | None:
    """Return the contract that fits the failures. It is limited by count and not by time, so that one case is described
    in the same words on a busy machine."""
    if trials.family.name != "values":
        return None
    return fitting(replace(trials, out_of_time=allowance.stop), shown, allowance.stop)


def _mechanism(trials: Trials, case: Case, fits: Fitting | None) -> Mechanism | None:
    """Return what the kernel does wrong, if no contract explains it. For a contract with another algorithm, or with
    products of sums multiplied out, only the step that loses accuracy is sought."""
    if fits is None or not fits.telling:
        return mechanism(trials, case)
    return mechanism(trials, case, LOSSY) if fits.neighbour.changed in (("algorithm",), ("expanded",)) else None


def _unsteady(trials: Trials, case: Case) -> Unsteady | None:
    """Return how the result of the case changes from call to call; None if it does not change, or does not end."""
    known = trials.known.get(case.digest)
    ends = known is None or known.verdict not in (Verdict.TIMEOUT, Verdict.CRASH)
    return unsteady(trials.pool, trials.target, case) if ends else None


def _is_known(case: Case, target: Target, family: Family, known: Sequence[Rule]) -> bool:
    """Whether one of the rules covers the case on the target."""
    traits = traits_for(case, target, family.law) if known else {}
    return any(rule.holds(traits) for rule in known)


def _cheapest(by_id: dict[str, Target], seen: dict[str, Observed], judgement: Judgement, family: Family) -> Target:
    """Return the fastest of the kernel's targets that fail in the same way; of equals, the one that found it."""
    found = by_id[judgement.target]
    same = [
        by_id[name]
        for name, each in seen.items()
        if by_id[name].kernel == found.kernel and family.holds(each.judgement)
    ]
    return min([found, *same], key=_cost)


def _within(target: Target, targets: Sequence[Target], seen: Mapping[str, Observed]) -> list[Target]:
    """Return, for each other kernel whose source is part of the target's kernel, the fastest target that passes."""
    found = []
    for kernel in kernels_within(target.kernel, dict.fromkeys(each.kernel for each in targets)):
        passing = [t for t in targets if t.kernel == kernel and t.id in seen]
        passing = [t for t in passing if seen[t.id].judgement.verdict is Verdict.PASS and not t.costly]
        found += sorted(passing, key=_cost)[:1]
    return found


def _cost(target: Target) -> tuple[bool, bool, bool]:
    """Return a sort key that puts faster targets first."""
    return target.costly, target.emulated, target.name.opt == "O0"
