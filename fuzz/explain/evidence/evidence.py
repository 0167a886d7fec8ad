"""Evidence: what was probed around a failure, and whether it failed too."""

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
from fuzz.explain.rule.inducer import Induced, induce
from fuzz.explain.rule.rule import Traits
from fuzz.explain.rule.thresholds import Probed
from fuzz.explain.trial.trial import Trials
from oracles.ops import OPS

_BATCH = 16
_VARIANTS = (3, 9)
"""The numbers of other values with which a law is tried besides the case's own, in two goes: whether two orders of a
sum differ is a matter of luck."""
_LARGEST = 1 << 13
_LARGEST_ROW = 1 << 16
"""The most elements of a probe, unless the failing row itself is long, since the oracle looks at every element of a
failure in high precision; and the most in any case."""
_FEW_ROWS = 3


@dataclass(frozen=True)
class Masking:
    """Whether values only hide a failure now and then: see `fuzz.explain.evidence.masking`."""

    only_hide: bool = False
    clear: tuple[str, ...] = ()
    """The recipes of plain values with which the failure shows: ordinary ones may show it by luck alone."""
    hidden: frozenset[int] = frozenset()
    """The indices of probes that pass, but fail with ordinary values in place of their own."""
    shown: frozenset[int] = frozenset()
    """The indices of probes that pass with ordinary values too."""
    cause: bool = False
    """Whether values are known to cause the failure."""


@dataclass
class Evidence:
    """What was probed so far."""

    cases: list[Case] = field(default_factory=list)
    traits: list[Traits] = field(default_factory=list)
    failed: list[bool] = field(default_factory=list)
    bad: list[tuple[Case, Judgement]] = field(default_factory=list)
    probed: set[tuple[str, str]] = field(default_factory=set)
    """The target and digest of each probe, so that none counts twice. What shrinking has judged counts too: it knows
    what passes."""

    masking: Masking = Masking()
    """What is known of values that hide the failure."""
    known: tuple[tuple[int, bool, frozenset[int]], Induced] | None = None
    """What was learned, with the number of probes and the set of probes from which it was learned."""
    said: tuple[tuple[bool, tuple[int, ...]], tuple[list[Traits], list[bool]]] | None = None
    """The last result of `tried` and its arguments: the same is asked again and again."""
    tests: list[int] = field(default_factory=list)
    """The indices of the probes that were drawn to refute a rule."""
    whole: bool = False
    """Whether all was probed that was to be: there may have been no time for that."""
    stands: bool = False
    """Whether the rule was put to the test until it stood: there may have been no time for that either."""
    tested: bool = False
    """Whether the test came to its end, however it ended."""
    true_of: int = 0
    """The number of cases of a search, the last ones tried, of which the rule is true."""
    drawn: int = 0
    """The number of probes before those that were drawn, as a search draws them, once no rule stood; 0 if one did."""
    beside: Evidence | None = None
    """Further evidence in which too little fails for a rule."""

    def fresh(self, cases: Sequence[Case], trials: Trials) -> list[Case]:
        """Return those of the cases that were not probed yet."""
        found = {}
        for case in cases:
            if (trials.target.id, case.digest) not in self.probed:
                self.probed.add((trials.target.id, case.digest))
                found[case.digest] = case
        return list(found.values())

    def induced(self) -> Induced:
        """Return the rule of the first failure, as far as was probed."""
        state = len(self.failed), self.masking.only_hide, self.masking.hidden
        if self.known is None or self.known[0] != state:
            counted = self.counted()
            self.known = state, induce(*self.tried(counted), counted.index(self.failed.index(True)))
        return self.known[1]

    def counted(self) -> list[int]:
        """Return the indices of the probes that count for the rule: those whose values hide the failure do not."""
        return [place for place in range(len(self.failed)) if place not in self.masking.hidden]

    def tried(self, places: Iterable[int]) -> tuple[list[Traits], list[bool]]:
        """Return the traits of those probes, and whether each failed. If values can only hide the failure, traits of
        values are left out."""
        chosen = tuple(places)
        asked = self.masking.only_hide, chosen
        if self.said is not None and self.said[0] == asked:
            return self.said[1]
        traits = [self.traits[place] for place in chosen]
        if self.masking.only_hide:
            # In their order, not as a set has them: of two equivalent traits the first is stated.
            kept = [name for name in dict.fromkeys(name for each in traits for name in each) if not name.is_of_values]
            traits = [{name: each[name] for name in kept if name in each} for each in traits]
        self.said = asked, (traits, [self.failed[place] for place in chosen])
        return self.said[1]

    def counted_probes(self) -> list[Probed]:
        """Return the probes that count for the rule, each with its case and its err/budget."""
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
    """Run cases of a search as probes; for a law each with other values too, with which two orders of a sum may
    differ."""
    if trials.family.law is None:
        probe(trials, cases, evidence)
    else:
        probe_all(trials, map(draw_of, cases), evidence)


def says_something(case: Case, trials: Trials) -> bool:
    """Whether a case of a search is a probe: as of `made_for`, and not of nothing. Of an output without elements no
    value can be wrong."""
    size = case.inputs[OPS[case.op].main].layout.size
    is_whole = trials.family.name != "values" or any(each.layout.size for each in case.outputs.values())
    invalid = trials.family.name == "accepted invalid"
    return 0 < size <= _LARGEST_ROW and is_whole and (invalid or trials.target.kernel.capability.accepts(case))


def made_for(draws: Iterable[Draw], trials: Trials) -> list[Case]:
    """Return the probes that can be made. Input that a kernel must reject says nothing of how it computes, and the
    other way round."""
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
    """Return the cases that are evidence for this failure, with their judgements; without those that another finding
    explains, and those that fail by another bug of a shared source."""
    judged = [
        (case, judgement)
        for case, judgement in zip(cases, trials.judge(cases), strict=True)
        if judgement is not None and not trials.is_explained(case)
    ]
    others = trials.fail_within([case for case, judgement in judged if trials.family.holds(judgement)])
    return [(case, judgement) for case, judgement in judged if case.digest not in others]


def _probe_any(trials: Trials, goes: Sequence[Sequence[Case]], evidence: Evidence) -> None:
    """Run cases that differ only in their values as one probe, which fails if one of them does. Each further go is for
    probes that have not failed yet."""
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
    """Return the kernel's other targets; of emulated ones, which start slowly, those that differ in one thing, and the
    one that differs in most: these tell each thing apart."""
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
