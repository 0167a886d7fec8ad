"""Diagnosis: a finding is attributed, shrunk and explained within bounds. What every verb does with what it finds."""

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
from fuzz.explain.stages.counterfactuals import counterfactuals
from fuzz.explain.stages.declaration import LEAST, Fitting, fitting
from fuzz.explain.stages.explain import explain
from fuzz.explain.stages.mechanisms import LOSSY, mechanism
from fuzz.explain.trial.family import Family
from fuzz.explain.trial.trial import KeepsStateError, Observed, Trials, replayed, traits_for
from fuzz.explain.trial.unset import unset_read
from fuzz.explain.trial.unsteady import unsteady

SECONDS = 45.0
"""The seconds for one finding, where nobody asks for something else. The number was chosen, not measured."""
_SHRINKING = 0.5
"""Shrinking gets at most this share of the time, so that as much is left for the rule. Chosen, not measured."""
_CHANGING = 0.3
"""Changing one thing at a time gets at most this share of what is left then: kernels on a GPU may be compiled for each.
Chosen, not measured."""
_MOST_RUNS = 20_000
"""Shrinking may take this many runs: it ends by count where it can, so that a seed gives one answer on fast and slow
machines."""
_MOST_ELEMENTS = 1 << 12
"""The elements of a case of which it is told how far it is off beside the smallest. Chosen, not measured."""
_HANGING_S = 0.5
"""The seconds that a case may take while a hang is shrunk: every case that hangs costs that much."""


def never() -> bool:
    """Nobody wants to stop."""
    return False


def silent(line: str) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class TimeAllowance:
    """How much may be spent on one finding, and who is told how it goes."""

    seconds: float = SECONDS
    stop: Callable[[], bool] = never
    """This is asked before each batch; once it is true, what is known by then is the answer."""
    say: Callable[[str], None] = silent
    """This is told in a few words how it goes, such as 'n 4097 -> 65'."""
    option: str = "--explain-time"
    """The option that gives a finding more time, or `NO_SHRINK`; '' where there is none."""
    shrinks: bool = True
    """Whether it is made smaller, and its rule is sought; otherwise only one thing at a time is changed about it."""
    clock: Callable[[], float] = time.monotonic
    """What counts the seconds."""


@dataclass(frozen=True)
class TimeShares:
    """How the time for explaining is shared out."""

    least_s: float
    """Seconds. Nothing is begun when fewer than this are left."""
    most_s: float = math.inf
    """The most seconds that one finding may take."""
    queue: float = math.inf
    """The time that is left is shared among at most this many of the piles that wait."""
    one_cause: float = 1.0
    """The part of the time that one finding may take, since another cause may be in the same pile."""
    option: str = ""
    """The option that gives more time, or '' where there is none."""
    shrinks: bool = True
    """Whether findings are made smaller, see `TimeAllowance`."""
    later: bool = False
    """Whether what there is no time for now is looked at later, while failures go on coming. If so, half a rule tells
    nothing apart, for it would make further buckets of one bug; and a cause stays in the family by which failures are
    told."""
    clock: Callable[[], float] = time.monotonic
    """What counts the seconds."""


@dataclass
class _Clock:
    """Says when to stop."""

    allowance: TimeAllowance
    stopped: bool = False

    def __post_init__(self) -> None:
        self._began = self.allowance.clock()

    @property
    def _gone(self) -> float:
        return self.allowance.clock() - self._began

    def part(self, share: float) -> float:
        """Seconds after the beginning at which that share of what is left now is over."""
        gone = self._gone
        return gone + share * (self.allowance.seconds - gone)

    def over(self, seconds: float = math.inf) -> bool:
        over = self._gone > min(seconds, self.allowance.seconds) or self.allowance.stop()
        self.stopped = self.stopped or over
        return over


Workers = Callable[[Sequence[Target], float | None], AbstractContextManager[Pool]]
"""A function that starts workers of targets, with a limit of each case in seconds or the targets' own."""


def new_workers(targets: Sequence[Target], limit: float | None) -> AbstractContextManager[Pool]:
    """Processes of their own."""
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
    """The finding with its diagnosis: attributed, shrunk and explained.

    `pool` holds the running workers of `targets`, among them that of the judgement; shrinking and probing have one of
    `workers` for themselves. Failures of which a rule in `known` holds are another finding's, and prove nothing about
    this one. `fresh`: the kernel is known to keep state, so each probe is the first call of a new process; where that
    is not known and shows only now, what was found by then is found again in this way.
    """
    case, judgement = finding.case, finding.judgement
    clock = _Clock(allowance)
    by_id = {target.id: target for target in targets}
    family = Family.of(judgement)
    target = by_id[judgement.target]
    seen: dict[str, Observed] = {}
    if not fresh:  # in running workers any target may fail by what it remembers
        seen = replayed(pool, by_id, case, family.law)
        # Where a rule of another finding holds of the case, all that fails would be that finding's.
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
    seen = replayed(pool, by_id, small, family.law)  # again: a smaller case may fail on more
    if shown is not None and shown.verdict is Verdict.TIMEOUT and not _ran(seen.get(target.id)):
        # The running worker has hung too often to be given more, and `own` waited for less than a case may take.
        with workers([target], pool.limits.get(target.id)) as patient:
            seen |= replayed(patient, by_id, small, family.law)
    verdicts = {name: each.judgement.verdict.value for name, each in seen.items()}
    within_its_limit = shown is not None and shown.verdict is Verdict.TIMEOUT and _ran(seen.get(target.id))
    if shown is None or not family.holds(shown) or within_its_limit:
        shown = seen[target.id].judgement if target.id in seen else judgement
    if not shown.verdict.is_finding:  # it fails only after other calls: the judgement that was made then stands
        chance = changing if small is case else None
        unknown = Diagnosis(
            case, None, Conclusion(None, None), len(trials.known), option=allowance.option, unsteady=chance
        )
        return Finding(case, judgement, verdicts, diagnosis=unknown)
    # Where it was shrunk it fails, although the running worker may be given no case any more.
    judgements = {**{name: each.judgement for name, each in seen.items()}, target.id: shown}
    attribution = attributed(target, targets, judgements, conclusion.rule)
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


def _clearest(known: Sequence[Judgement | None], trials: Trials) -> Judgement | None:
    """The judgement of the values that are the most times their budget off, of those whose exact values take no time
    to speak of."""
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
    """Whether a running worker, which has the whole limit of a case, was given it: it says then whether that hangs."""
    return seen is not None and seen.judgement.verdict is not Verdict.NOT_RUN


def _shrunk_and_explained(
    trials: Trials, case: Case, judgement: Judgement, others: Sequence[Target], clock: _Clock
) -> tuple[Case, tuple[Counterfactual, ...], Fitting | None, Conclusion]:
    """Return the smallest case, what becomes of it with one thing changed, the contract that fits what is known by
    then, and when it fails, in the time that is left. Raises KeepsStateError."""
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
    # Processes of an emulator start slowly: one for each probe would leave no time for the rule.
    near = [each for each in others if not (trials.fresh and each.emulated)]
    fits = _declared_otherwise(trials, clock.allowance, (case, judgement), (small, trials.confirmed(small)))
    failing = sum(each is not None and trials.family.holds(each) for each in trials.known.values())
    changed, nearby = clock.part(_CHANGING), tuple[Counterfactual, ...]()
    if known is None or known.verdict is not Verdict.TIMEOUT:  # each that hangs too would take its whole limit
        nearby = counterfactuals(replace(trials, out_of_time=lambda: clock.over(changed)), small)
    conclusion = explain(replace(trials, out_of_time=clock.over), small, near)
    if fits is None and failing < LEAST:  # of a case that was kept, others fail when its rule is probed
        fits = _declared_otherwise(trials, clock.allowance, (case, judgement), (small, trials.confirmed(small)))
    return small, nearby, fits, conclusion


def _declared_otherwise(
    trials: Trials, allowance: TimeAllowance, *shown: tuple[Case, Judgement | None]
) -> Fitting | None:
    """Return the contract that fits. No time cuts it off, as one case would be told in other words on a busy machine;
    what it tries is bounded by count."""
    if trials.family.name != "values":
        return None
    return fitting(replace(trials, out_of_time=allowance.stop), shown, allowance.stop)


def _mechanism(trials: Trials, case: Case, fits: Fitting | None) -> Mechanism | None:
    """What the kernel does wrong, where no contract says that; of one that fits by another algorithm, or by products of
    sums multiplied out, the step it is wrong by."""
    if fits is None or not fits.telling:
        return mechanism(trials, case)
    return mechanism(trials, case, LOSSY) if fits.neighbour.changed in (("algorithm",), ("expanded",)) else None


def _unsteady(trials: Trials, case: Case) -> Unsteady | None:
    """How the result of the case changes from call to call; None where it does not end."""
    known = trials.known.get(case.digest)
    ends = known is None or known.verdict not in (Verdict.TIMEOUT, Verdict.CRASH)
    return unsteady(trials.pool, trials.target, case) if ends else None


def _is_known(case: Case, target: Target, family: Family, known: Sequence[Rule]) -> bool:
    """Whether one of the rules holds of the case on the target."""
    traits = traits_for(case, target, family.law) if known else {}
    return any(rule.holds(traits) for rule in known)


def _cheapest(by_id: dict[str, Target], seen: dict[str, Observed], judgement: Judgement, family: Family) -> Target:
    """Return the fastest of the kernel's targets that fail in the same way; first the one it was found on."""
    found = by_id[judgement.target]
    same = [
        by_id[name]
        for name, each in seen.items()
        if by_id[name].kernel == found.kernel and family.holds(each.judgement)
    ]
    return min([found, *same], key=_cost)


def _within(target: Target, targets: Sequence[Target], seen: Mapping[str, Observed]) -> list[Target]:
    """Return the fastest target of each kernel of whose source the target's is made, where it passes."""
    found = []
    for kernel in kernels_within(target.kernel, dict.fromkeys(each.kernel for each in targets)):
        passing = [t for t in targets if t.kernel == kernel and t.id in seen]
        passing = [t for t in passing if seen[t.id].judgement.verdict is Verdict.PASS and not t.costly]
        found += sorted(passing, key=_cost)[:1]
    return found


def _cost(target: Target) -> tuple[bool, bool, bool]:
    """Smaller for a target that runs faster."""
    return target.costly, target.emulated, target.name.opt == "O0"
