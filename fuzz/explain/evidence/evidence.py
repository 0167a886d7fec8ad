"""Evidence: the probes around a failure, and whether each of them failed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.draw import Draw
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.realise import draw_of
from fuzz.core.generate.variations import made, with_values
from fuzz.core.judge.judge import Judgement
from fuzz.explain.rule.bounds import Probed
from fuzz.explain.rule.inducer import Induced, induce
from fuzz.explain.rule.rule import Traits
from fuzz.explain.trial.trial import Trials
from oracles.ops import OPS

_BATCH = 16
_VARIANTS = (3, 9)
"""The numbers of other values with which a law is tried besides the case's own, in two goes: luck decides whether two
orders of a sum round differently."""
_LARGEST = 1 << 13
_LARGEST_ROW = 1 << 16
"""The most elements of a probe, unless the failing row itself is longer, since the oracle evaluates each element of a
failure in high precision; and the most in any case."""
_FEW_ROWS = 3


@dataclass(frozen=True)
class Masking:
    """Whether values hide a failure but do not cause it: see `fuzz.explain.evidence.masking`."""

    only_hide: bool = False
    clear: tuple[str, ...] = ()
    """The recipes of plain values that show the failure for certain; ordinary values may show it by luck only."""
    hidden: frozenset[int] = frozenset()
    """The indices of probes that pass, but fail with ordinary values."""
    shown: frozenset[int] = frozenset()
    """The indices of probes that pass, with ordinary values too."""
    cause: bool = False
    """Whether values are known to cause the failure."""


@dataclass
class Evidence:
    """All probes so far, and what was learned from them."""

    cases: list[Case] = field(default_factory=list)
    traits: list[Traits] = field(default_factory=list)
    failed: list[bool] = field(default_factory=list)
    bad: list[tuple[Case, Judgement]] = field(default_factory=list)
    probed: set[tuple[str, str]] = field(default_factory=set)
    """The target and digest of each probe, so that none counts twice, including the cases that shrinking judged."""

    masking: Masking = Masking()
    """What is known of values that hide the failure."""
    known: tuple[tuple[int, bool, frozenset[int]], Induced] | None = None
    """The learned rule, with the number of probes and the masking from which it was learned."""
    said: tuple[tuple[bool, tuple[int, ...]], tuple[list[Traits], list[bool]]] | None = None
    """The arguments and the result of the last call of `tried`, which is often repeated."""
    tests: list[int] = field(default_factory=list)
    """The indices of the probes that were drawn to refute a rule."""
    whole: bool = False
    """Whether all planned probes were run before the time was over."""
    stands: bool = False
    """Whether the rule was tested until it stood, before the time was over."""
    tested: bool = False
    """Whether the test of the rule came to its end, with any result."""
    true_of: int = 0
    """The number of cases of a search that the rule fits: the last ones that were tried."""
    drawn: int = 0
    """The number of probes before random cases of a search were added because no rule stood; 0 if one did."""
    beside: Evidence | None = None
    """Further evidence, in which too few cases fail for a rule."""

    def fresh(self, cases: Sequence[Case], trials: Trials) -> list[Case]:
        """Return the cases that were not probed yet, and mark them as probed."""
        found = {}
        for case in cases:
            if (trials.target.id, case.digest) not in self.probed:
                self.probed.add((trials.target.id, case.digest))
                found[case.digest] = case
        return list(found.values())

    def induced(self) -> Induced:
        """Return the rule of the first failure, learned from the probes so far."""
        state = len(self.failed), self.masking.only_hide, self.masking.hidden
        if self.known is None or self.known[0] != state:
            counted = self.counted()
            self.known = state, induce(*self.tried(counted), counted.index(self.failed.index(True)))
        return self.known[1]

    def counted(self) -> list[int]:
        """Return the indices of the probes that count for the rule: all whose values do not hide the failure."""
        return [place for place in range(len(self.failed)) if place not in self.masking.hidden]

    def tried(self, places: Iterable[int]) -> tuple[list[Traits], list[bool]]:
        """Return the traits of the probes at these indices, and whether each failed. Traits of values are left out if
        values only hide the failure."""
        chosen = tuple(places)
        asked = self.masking.only_hide, chosen
        if self.said is not None and self.said[0] == asked:
            return self.said[1]
        traits = [self.traits[place] for place in chosen]
        if self.masking.only_hide:
            # The order of traits is kept, since of two equivalent ones the first is stated.
            kept = [name for name in dict.fromkeys(name for each in traits for name in each) if not name.is_of_values]
            traits = [{name: each[name] for name in kept if name in each} for each in traits]
        self.said = asked, (traits, [self.failed[place] for place in chosen])
        return self.said[1]

    def counted_probes(self) -> list[Probed]:
        """Return the probes that count for the rule, with traits, case and err/budget."""
        counted, bad = self.counted(), iter(self.bad)
        ratios = [_ratio(next(bad)[1]) if failed else 0.0 for failed in self.failed]
        traits, failed = self.tried(counted)
        each = zip(counted, traits, failed, strict=True)
        return [Probed(traits, fails, self.cases[place], ratios[place]) for place, traits, fails in each]

    def add(self, case: Case, trials: Trials, judgement: Judgement, *, fails: bool) -> None:
        self.cases.append(case)
        self.traits.append(trials.traits(case))
        self.failed.append(fails)
        if fails:
            self.bad.append((case, judgement))


def _ratio(failure: Judgement) -> float:
    return failure.ratio if failure.verdict is Verdict.FAIL_NUMERIC else math.inf


def probe_all(trials: Trials, draws: Iterable[Draw], evidence: Evidence) -> None:
    if trials.family.law is None:
        probe(trials, made_for(draws, trials), evidence)
        return
    for draw in draws:
        first, more = _VARIANTS
        variants = [with_values(draw, "normal", seed) for seed in range(first + more)]
        goes = (made_for([draw, *variants[:first]], trials), made_for(variants[first:], trials))
        _probe_any(trials, goes, evidence)


def probe_each(trials: Trials, cases: Sequence[Case], evidence: Evidence) -> None:
    """Run cases of a search as probes. For a law each is run with other values too, in which two orders of a sum may
    round differently."""
    if trials.family.law is None:
        probe(trials, cases, evidence)
    else:
        probe_all(trials, map(draw_of, cases), evidence)


def says_something(case: Case, trials: Trials) -> bool:
    """Whether a case of a search serves as a probe: it is not too large or empty, and fits the kind of failure. An
    output without elements cannot have a wrong value."""
    size = case.inputs[OPS[case.op].main].layout.size
    is_whole = trials.family.name != "values" or any(each.layout.size for each in case.outputs.values())
    invalid = trials.family.name == "accepted invalid"
    return 0 < size <= _LARGEST_ROW and is_whole and (invalid or trials.target.kernel.capability.accepts(case))


def made_for(draws: Iterable[Draw], trials: Trials) -> list[Case]:
    """Return the probes that can be made and are not too large. Input that a kernel must reject tells nothing about its
    values, and valid input nothing about rejecting."""
    invalid = trials.family.name == "accepted invalid"
    cases = []
    for draw in draws:
        of_rows = _LARGEST if draw.rows > _FEW_ROWS else _LARGEST_ROW
        if draw.work <= max(trials.room, of_rows if len(OPS[draw.op].named) == 1 else trials.work):
            with contextlib.suppress(CaseError):
                case = made(draw)
                if invalid or trials.target.kernel.capability.accepts(case):
                    cases.append(case)
    return cases


def probe(trials: Trials, cases: Sequence[Case], evidence: Evidence) -> None:
    fresh = evidence.fresh(cases, trials)
    for start in range(0, len(fresh), _BATCH):
        batch = fresh[start : start + _BATCH]
        for case, judgement in telling(batch, trials):
            evidence.add(case, trials, judgement, fails=trials.family.holds(judgement))


def telling(cases: Sequence[Case], trials: Trials) -> list[tuple[Case, Judgement]]:
    """Return the cases that are evidence for this failure, with their judgements. Cases that another finding explains
    are left out, and those that fail by another bug in a shared source."""
    judged = [
        (case, judgement)
        for case, judgement in zip(cases, trials.judge(cases), strict=True)
        if judgement is not None and not trials.is_explained(case)
    ]
    others = trials.fail_within([case for case, judgement in judged if trials.family.holds(judgement)])
    return [(case, judgement) for case, judgement in judged if case.digest not in others]


def _probe_any(trials: Trials, goes: Sequence[Sequence[Case]], evidence: Evidence) -> None:
    """Run cases that differ only in their values as one probe, which fails if one of them does. Later goes are run only
    if no earlier one failed."""
    judged: list[tuple[Case, Judgement]] = []
    for cases in goes:
        judged += telling(cases, trials)
        failing = [(case, judgement) for case, judgement in judged if trials.family.holds(judgement)]
        if failing:
            evidence.add(failing[0][0], trials, failing[0][1], fails=True)
            return
    if judged:
        evidence.add(judged[0][0], trials, judged[0][1], fails=False)


def differing(target: Target, siblings: Sequence[Target]) -> list[Target]:
    """Return the other targets of the kernel. Emulated ones start slowly, so of these only the targets that differ in
    one trait are taken, and the one that differs most: together they tell the traits apart."""
    others = [other for other in siblings if other.id != target.id]
    if not target.emulated or not others:
        return others
    things = [len({*other.traits} - {*target.traits}) for other in others]
    furthest = things.index(max(things))
    return [other for place, other in enumerate(others) if things[place] <= 1 or place == furthest]


def probe_elsewhere(
    trials: Trials, others: Sequence[Target], draws: Callable[[Target], Iterable[Draw]], evidence: Evidence
) -> None:
    with WorkerPool(others, limit=trials.target.case_limit) as pool:
        pool.watch = trials.pool.watch
        for target in others:
            if not isinstance(pool.statuses[target.id], NotRun):
                probe_all(replace(trials, target=target, pool=pool, known={}), draws(target), evidence)
