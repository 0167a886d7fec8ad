"""Examining a finding: attributed, shrunk and explained within bounds. What every verb does with what it finds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from fuzz.adapters.target import Target
from fuzz.base.attestation import NotRun
from fuzz.base.case import Case
from fuzz.base.draw import Frame
from fuzz.base.verdict import Verdict
from fuzz.execute.pool import Pool, WorkerPool
from fuzz.judge.judge import Judgement
from fuzz.triage.attribution import Attribution, attributed
from fuzz.triage.explain import Explanation, explain
from fuzz.triage.family import Family
from fuzz.triage.fresh import Seen, replayed
from fuzz.triage.rule import Rule
from fuzz.triage.shrink import shrink
from fuzz.triage.trial import KeepsStateError, Trials

SECONDS = 45.0
"""for one finding."""
_SHRINKING = 0.5
"""of the time, at most, is for shrinking."""
_MOST_RUNS = 20_000
"""of shrinking: ends by count where it can, so that a seed gives one answer on fast and slow machines."""
_HANGING_S = 0.5
"""limit of a case while a hang is shrunk: every case that hangs costs that much."""


def _never() -> bool:
    return False


def _silent(line: str) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Allowance:
    """How much may be spent on one finding, and who is told how it goes."""

    seconds: float = SECONDS
    stop: Callable[[], bool] = _never
    """asked before each batch; once it is true, what is known by then is the answer."""
    say: Callable[[str], None] = _silent
    """told in a few words, such as 'n 4097 -> 65'."""
    option: str = "--explain-time"
    """that gives it more time."""


@dataclass(frozen=True)
class Explained:
    """A finding with its smallest case, what it is tied to, and when it fails."""

    target: str
    original: Case
    case: Case
    """the smallest that fails in the same way; the original where that does not fail by itself."""
    judgement: Judgement
    """on `case` and `target`."""
    verdicts: dict[str, str]
    """of `case` on every target that was given it."""
    attribution: Attribution | None
    explanation: Explanation
    runs: int = 0
    """cases run to find that out."""
    whole: bool = True
    """False where time ran out first, or somebody wanted to stop."""
    option: str = "--explain-time"
    """that would have given it more time."""

    @property
    def rule(self) -> Rule | None:
        """When it fails, where a rule agrees with every probe."""
        return self.explanation.rule

    def lines(self) -> list[str]:
        """For a report: what was shrunk, the cause, the rule with its evidence, the places."""
        said = []
        if self.case.digest != self.original.digest:
            said.append(f"shrunk: {change(self.original, self.case)} (was {self.original.digest[:12]})")
        if self.attribution is not None:
            said.append(f"cause: {self.attribution}")
        said += self.explanation.lines()
        if not self.whole:
            said.append(f"not finished: the time for explaining was over; see {self.option}")
        return said


@dataclass
class _Clock:
    """Says when to stop."""

    allowance: Allowance
    began: float = field(default_factory=time.monotonic)
    stopped: bool = False

    def part(self, share: float) -> float:
        """Seconds after the beginning at which that share of what is left now is over."""
        gone = time.monotonic() - self.began
        return gone + share * (self.allowance.seconds - gone)

    def over(self, seconds: float = math.inf) -> bool:
        over = time.monotonic() - self.began > min(seconds, self.allowance.seconds) or self.allowance.stop()
        self.stopped = self.stopped or over
        return over


Workers = Callable[[Sequence[Target], float | None], AbstractContextManager[Pool]]
"""Starts workers of targets, with a limit of each case in seconds or the targets' own."""


def new_workers(targets: Sequence[Target], limit: float | None) -> AbstractContextManager[Pool]:
    """Processes of their own."""
    return WorkerPool(targets, limit=limit)


def examine(
    pool: Pool,
    targets: Sequence[Target],
    case: Case,
    judgement: Judgement,
    allowance: Allowance = Allowance(),
    known: Sequence[Rule] = (),
    workers: Workers = new_workers,
    *,
    fresh: bool = False,
) -> Explained:
    """Attribute, shrink and explain one finding.

    `pool` holds the running workers of `targets`, among them that of the judgement; shrinking and probing have one of
    `workers` for themselves. Failures of which a rule in `known` holds are another finding's, and prove nothing about
    this one. `fresh`: the kernel is known to keep state, so each probe is the first call of a new process; where that
    is not known and shows only now, what was found by then is found again in this way.
    """
    clock = _Clock(allowance)
    by_id = {target.id: target for target in targets}
    family = Family.of(judgement)
    target = by_id[judgement.target]
    if not fresh:  # in running workers any target may fail by what it remembers
        target = _cheapest(by_id, replayed(pool, by_id, case, family.law), judgement, family)
    siblings = [t for t in targets if t.kernel == target.kernel and not isinstance(pool.statuses.get(t.id), NotRun)]
    others = [sibling for sibling in siblings if not sibling.costly]
    with workers([target], _HANGING_S if judgement.verdict is Verdict.TIMEOUT else None) as own:
        trials = Trials(own, target, family, explained=tuple(known), fresh=fresh)
        try:
            small, explanation = _looked_into(trials, case, judgement, others, clock)
        except KeepsStateError:
            trials = replace(trials, fresh=True, known={})
            small, explanation = _looked_into(trials, case, judgement, others, clock)
        shown = trials.known.get(small.digest)
    seen = replayed(pool, by_id, small, family.law)
    verdicts = {name: each.judgement.verdict.value for name, each in seen.items()}
    if shown is None or not family.holds(shown):
        shown = seen[target.id].judgement if target.id in seen else judgement
    if not shown.verdict.is_finding:  # it fails only after other calls: the judgement that was made then stands
        return Explained(
            judgement.target, case, case, judgement, verdicts, None, Explanation(None, None), len(trials.known)
        )
    judgements = {name: each.judgement for name, each in seen.items()}
    attribution = attributed(target, targets, judgements, explanation.rule)
    return Explained(
        target.id, case, small, shown, verdicts, attribution, explanation, len(trials.known), not clock.stopped,
        allowance.option,
    )  # fmt: skip


def _looked_into(
    trials: Trials, case: Case, judgement: Judgement, others: Sequence[Target], clock: _Clock
) -> tuple[Case, Explanation]:
    """The smallest case and when it fails, in the time that is left. Raises KeepsStateError."""
    say, ends, most = clock.allowance.say, clock.part(_SHRINKING), trials.runs + _MOST_RUNS
    trials.watch = lambda smaller: say(change(case, smaller))
    trials.out_of_time = lambda: clock.over(ends) or trials.runs > most
    small = shrink(trials, case, judgement)
    known = trials.known.get(small.digest)
    if known is not None and not known.verdict.is_finding:
        return small, Explanation(None, None)
    replace(trials, family=replace(trials.family, clear=0.0, wide=True)).confirm(small)
    say(f"{change(case, small) or 'as it is'}, probing around it")
    # Processes of an emulator start slowly: one for each probe would leave no time for the rule.
    near = [each for each in others if not (trials.fresh and each.emulated)]
    return small, explain(replace(trials, out_of_time=clock.over), small, near)


def _cheapest(by_id: dict[str, Target], seen: dict[str, Seen], judgement: Judgement, family: Family) -> Target:
    """Of the kernel's targets that fail in the same way the one that runs fastest; first the one it was found on."""
    found = by_id[judgement.target]
    same = [
        by_id[name]
        for name, each in seen.items()
        if by_id[name].kernel == found.kernel and family.holds(each.judgement)
    ]
    return min([found, *same], key=_cost)


def _cost(target: Target) -> tuple[bool, bool, bool]:
    return target.costly, target.emulated, target.name.opt == "O0"


def change(before: Case, after: Case) -> str:
    """What shrinking changed, in a few words: 'n 4097 -> 65, rows 3 -> 1'."""
    one, two = Frame(before), Frame(after)
    facts = (("n", one.n, two.n), ("rows", math.prod(one.outer), math.prod(two.outer)))
    words = [f"{name} {old} -> {new}" for name, old, new in facts if old != new]
    if not words and before.digest != after.digest:
        words.append("plainer values or layout")
    return ", ".join(words)
