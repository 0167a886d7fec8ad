"""Standing: a rule is tested in rounds until no probe refutes it. Each round has a stage, which follows from the
results of the earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import islice

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.draw import Draw, Frame
from fuzz.core.generate import variations as vary
from fuzz.core.generate.dims import CHEAP_WORK
from fuzz.explain.evidence import probes
from fuzz.explain.evidence.closing import closing
from fuzz.explain.evidence.evidence import Evidence, made_for, probe_all, probe_each, says_something
from fuzz.explain.evidence.masking import unmask
from fuzz.explain.evidence.refutation import refuting, searched
from fuzz.explain.rule.rule import Traits
from fuzz.explain.rule.thresholds import is_rough
from fuzz.explain.trial.trial import Trials

LARGER = 4
"""The factor by which the steps of a probe may have more terms than those of the failing case: one dimension may be
that much longer."""
_ROUNDS, _CLOSING = 5, 9
"""The most rounds in which a rule is tested, and the most further rounds for the gaps at its thresholds: each round
leaves a fifth of a gap."""
_SEARCHED, _SEARCHED_SLOWLY = 64, 16
"""The number of cases of a search in each round; fewer on slow targets."""
_CONVINCED = 2
"""The number of rounds without a refutation after which a rule gets a longer test."""
_HELD, _HELD_SLOWLY, _AT_A_TIME = 1000, 250, 100
"""The number of consecutive cases of a search that a rule must fit to stand, and the same on slow targets: it is then
wrong for fewer than 3 in as many (for 1,000 at 95%); and the number of cases between two looks at the rule."""
_BY_LAW = 10
"""The factor by which a law has fewer cases, since each is tried with a dozen kinds of values."""
_AGAIN = 3
"""The number of further rounds after a long test has refuted a rule."""
_LOOKED_INTO, _MOST_LOOKED_INTO, _LIKE = 2, 6, 24
"""Probes that contradict a rule are probed around if a round has at most the first number of them, and at most the
second in all, since this does not mend a rule that is wrong again and again. The third number is how many probes are
made around each. Chosen, not measured."""
_NEAR = (1, 2, 3, 5, 8, 12, 16, 31, 64, 100, 129)
"""The row lengths of these probes: short ones, since a failing probe takes longer the more elements it has."""


class Stage(Enum):
    """The subject of a round of the test."""

    REFUTING = auto()
    """The rule is new, or was just refuted: probes of its rivals and its edges, and some cases of a search."""
    CLOSING = auto()
    """The rounds of refuting are over: probes of the gaps at its thresholds, and some cases of a search."""
    SEARCHING = auto()
    """The rule has held for some rounds: many cases of a search, until it fits enough of them in a row."""
    STANDING = auto()
    """The rule stands: only probes of the gaps at its thresholds."""


@dataclass(frozen=True)
class Standing:
    """The state of a test after some rounds."""

    enough: int
    """The number of consecutive cases of a search that the rule must fit to stand."""
    searched: Mapping[Stage, int]
    """The number of cases of a search in a round, by stage."""
    rounds: int = _ROUNDS
    """The number of rounds after which the rule is not refuted any more."""
    number: int = 0
    """The number of rounds so far, without rounds of searching that contradict nothing."""
    held: int = 0
    """The number of latest rounds without a contradiction."""
    true_of: int = 0
    """The number of latest consecutive cases of a search that the rule fits."""
    looked_into: int = 0
    """The number of contradicting probes that were probed around."""

    @classmethod
    def at_first(cls, trials: Trials) -> Standing:
        """Return the state before the first round."""
        fewer = _BY_LAW if trials.family.law is not None else 1
        some = (_SEARCHED_SLOWLY if probed_as(trials).costly else _SEARCHED) // fewer
        cases = {Stage.REFUTING: some, Stage.CLOSING: some, Stage.SEARCHING: _AT_A_TIME // fewer, Stage.STANDING: 0}
        return cls(enough(trials), cases)

    @property
    def stage(self) -> Stage:
        """The stage of the next round."""
        if self.held < _CONVINCED:
            return Stage.REFUTING if self.number < self.rounds else Stage.CLOSING
        return Stage.SEARCHING if self.true_of < self.enough else Stage.STANDING

    @property
    def is_over(self) -> bool:
        return self.number >= self.rounds + _CLOSING

    def worth_a_look(self, against: int) -> int:
        """Return how many of the contradicting probes are probed around; none if a round has many."""
        return min(against, _MOST_LOOKED_INTO - self.looked_into) if against <= _LOOKED_INTO else 0

    def after(self, against: int, searched: int, looked_into: int) -> Standing:
        """Return the state after a round with this many contradicting probes, and this many cases of a search."""
        is_search = self.stage is Stage.SEARCHING
        told = replace(
            self, number=self.number + (not is_search or against > 0), looked_into=self.looked_into + looked_into
        )
        if not against:
            return replace(told, held=self.held + 1, true_of=self.true_of + searched)
        rounds = min(self.number + 1 + _AGAIN, _ROUNDS + _CLOSING) if is_search else self.rounds
        return replace(told, rounds=rounds, held=0, true_of=0)


def put_to_test(trials: Trials, base: Draw, key: int, evidence: Evidence) -> None:
    """Test the rule, and each new one that replaces it, until one stands or the rounds are over."""
    standing, drawn = Standing.at_first(trials), searched(trials.target, key)
    # A kernel may reject input that is invalid in several ways for another reason than the stated one.
    looks = trials.family.law is None and trials.family.name != "accepted invalid"
    while not standing.is_over:
        unmask(trials, evidence)
        learned, before, seed = evidence.induced().learned, len(evidence.failed), key + standing.number
        probe_all(trials, _draws(trials, base, seed, standing.stage, evidence), evidence)
        middle = len(evidence.failed)
        some = islice(drawn, standing.searched[standing.stage])
        probe_each(trials, [case for case in some if says_something(case, trials)], evidence)
        new = range(before, len(evidence.failed))
        evidence.tests += new
        unmask(trials, evidence)
        counted = [place for place in new if place not in evidence.masking.hidden]
        against = [place for place in counted if learned.holds(evidence.traits[place]) != evidence.failed[place]]
        rare = against[: standing.worth_a_look(len(against)) if looks else 0]
        for place in rare:
            look_into(trials, evidence.cases[place], seed, evidence)
        standing = standing.after(len(against), new.stop - middle, len(rare))
        evidence.stands, evidence.true_of = standing.stage is Stage.STANDING, standing.true_of
        if evidence.stands and not (new and is_rough(evidence.induced().learned.rule, evidence.counted_probes())):
            return


def _draws(trials: Trials, base: Draw, key: int, stage: Stage, evidence: Evidence) -> Iterable[Draw]:
    """Return the draws to probe in a round besides the cases of a search."""

    def known(draw: Draw) -> Traits | None:
        return next((trials.traits(case) for case in made_for([draw], trials)), None)

    induced, tried, law = evidence.induced(), evidence.counted_probes(), trials.family.law is not None
    if stage is Stage.REFUTING:
        hidden = evidence.masking.only_hide
        return refuting(base, probed_as(trials), induced, tried, known, key, law=law, hidden=hidden)
    return () if stage is Stage.SEARCHING else closing(base, induced.learned.rule, tried, known)


def enough(trials: Trials) -> int:
    """Return the number of consecutive cases of a search that a rule must fit to stand."""
    most = _HELD_SLOWLY if probed_as(trials).costly else _HELD
    return most // (_BY_LAW if trials.family.law is not None else 1)


def probed_as(trials: Trials) -> Target:
    """Return the target for which probes are drawn. It counts as slow if each probe has its own process, or takes the
    oracle long."""
    return replace(trials.target, costly=trials.target.costly or trials.fresh or trials.work > LARGER * CHEAP_WORK)


def look_into(trials: Trials, exception: Case, key: int, evidence: Evidence) -> None:
    """Probe around a case that contradicts the rule. It may be the only one of its kind so far, and a single exception
    justifies no condition."""
    if not Frame(exception).fits():
        return
    base, before = vary.filled(vary.base_of(exception)), len(evidence.failed)
    changed = list(probes.changed(base, probed_as(trials)))
    one_in = -(-len(changed) // _LIKE)
    probe_all(trials, [*(replace(base, n=n) for n in _NEAR), *changed[key % one_in :: one_in]], evidence)
    evidence.tests += range(before, len(evidence.failed))
