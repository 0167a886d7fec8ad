"""Conclusions: what the probes of a failure say about when it fails, and where in the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fuzz.core.base.feature import Feature
from fuzz.core.base.text import counted
from fuzz.explain.attribute.places import places_of
from fuzz.explain.evidence.evidence import Evidence
from fuzz.explain.evidence.masking import hiding, shown_in, shown_with
from fuzz.explain.explanation import Held, Places, Suggestion
from fuzz.explain.rule.bounds import RuleBounds, bounds_of
from fuzz.explain.rule.inducer import loosened
from fuzz.explain.rule.rule import Learned, Rule
from fuzz.explain.rule.thresholds import HELD, Probed, fades, held_against, is_open, plainly
from fuzz.explain.rule.traits import varied_sizes
from oracles.ops import OPS

_PUT = 6
"""The probes that must have been drawn inside an alternative for it to stand."""
VARIED = ("n", "rows", "values")
"""What every probing of an input of rows varies."""


@dataclass(frozen=True)
class Conclusion:
    """When it fails, and where in the output, as far as probes tell."""

    learned: Learned | None
    """What the probes taught; None if there was no time for a single one, or nothing that could be varied."""
    places: Places | None
    """Where the bad elements are; None if no element is known to be bad, as after a fault or a broken law."""
    law: str = ""
    """The law that is broken."""
    core: Rule | None = None
    """What tells this failure from others: the rule without the conditions that only hide it; None without a rule."""
    cores: tuple[Rule, ...] = ()
    """The same for the rule that was learned, sound or not, and for each of its alternatives."""
    tested: tuple[int, int] = (0, 0)
    """How many of the probes were drawn to refute the rule, inside it and outside."""
    stands: bool = False
    """Whether the rule stood when it was put to the test."""
    true_of: int = 0
    """The number of cases of a search, the last ones tried, of which the rule is true."""
    varied: tuple[str, ...] = VARIED
    """Those of `could_vary` in which the probes differ."""
    whole: bool = True
    """Whether everything was probed before time was over: what was not varied is in no rule."""
    hides: Rule | None = None
    """The values that hide it, as far as one condition says so."""
    hidden: int = 0
    """The number of probes that pass, but fail with ordinary values in place of their own, in the finest dtype; they
    count neither for nor against the rule."""
    shown_in: frozenset[str] = frozenset()
    """The dtypes of the first input that may hide it though it failed in them."""
    shown_with: tuple[Mapping[str, float], ...] = ()
    """Parameters with which it failed clearly."""
    shown_by: tuple[str, ...] = ()
    """The recipes of plain values that show it."""
    could_vary: tuple[str, ...] = VARIED
    """What every probing of an input varies, if there is time for it."""
    doubt: str = ""
    """Why a rule that agrees with every probe does not stand."""
    bounds: RuleBounds | None = None
    """Necessary and sufficient conditions if the rule is not certain, as far as there was time for them."""
    met: int = 0
    """The number of probes that fail as the rule says, and of hidden ones."""
    held: tuple[Held, ...] = ()
    """What was held against each condition of the rule."""
    suggestion: Suggestion | None = None
    """What its kernel may be meant to declare, if it refuses what it fails for."""

    @property
    def rule(self) -> Rule | None:
        """The rule of this failure, if it agrees with all probes but a few."""
        return self.learned.rule if self.whole and self.learned is not None and self.learned.sound else None

    @property
    def certain(self) -> bool:
        """Whether the rule is stated without 'about'."""
        return self.whole and self.learned is not None and self.learned.exact and self.stands


def concluded(evidence: Evidence, law: str) -> Conclusion:
    """Return what the evidence says."""
    if not any(evidence.failed):
        return Conclusion(None, places_of(evidence.bad), law, whole=evidence.whole)
    counted, tried = evidence.counted(), evidence.counted_probes()
    learned = plainly(evidence.induced().learned, tried)
    # Probes that were drawn to refute it are mostly about its exceptions.
    tests = {*evidence.tests}
    usual = evidence.tried(place for place in counted if place not in tests)
    cores = tuple(loosened(rule, *usual) for rule in (learned.rule, *learned.others))
    core = cores[0] if evidence.whole and learned.sound and cores[0].atoms else None
    own = evidence.bad
    if learned.others:
        shown = [each.traits for each in tried if each.failed]
        own = [failure for failure, each in zip(own, shown, strict=True) if learned.rule.holds(each)]
    alike = [failure for failure in own if failure[0].origin.shard is None]  # cases of all sorts have no pattern
    inside = [learned.holds(evidence.traits[place]) for place in counted if place in tests]
    tested = sum(inside), len(inside) - sum(inside)
    rules, put = (learned.rule, *learned.others), [evidence.traits[place] for place in counted if place in tests]
    held = tuple(Held(atom, held_against(atom, rule, tried)) for rule in rules for atom in rule.atoms)
    doubt = _doubt(evidence, rules, tried, held)
    stands = evidence.stands and not doubt
    stands = stands and (len(rules) == 1 or all(sum(map(rule.holds, put)) >= _PUT for rule in rules))
    could = (*varied_sizes(OPS[evidence.bad[0][0].op]), "values")
    hidden = len(evidence.masking.hidden), shown_in(evidence), shown_with(evidence), evidence.masking.clear
    about = (
        cores,
        tested,
        stands,
        evidence.true_of,
        _varied(evidence, could),
        evidence.whole,
        hiding(evidence),
        *hidden,
        could,
        doubt,
    )
    failing = sum(evidence.failed[place] and learned.holds(evidence.traits[place]) for place in counted)
    said = replace(Conclusion(learned, places_of(alike or own), law, core, *about), met=failing + hidden[0], held=held)
    return said if said.certain else replace(said, bounds=_bounds(evidence))


def _bounds(evidence: Evidence) -> RuleBounds | None:
    """Return necessary and sufficient conditions; None if there was no time to draw cases for them. If the time was
    over before all probes were made, what is common to all failures is taken from the probes near a failure."""
    counted = evidence.counted()
    known = sum(place < evidence.drawn for place in counted) if evidence.drawn else len(counted)
    return bounds_of(*evidence.tried(counted), known) if evidence.drawn or not evidence.tested else None


def _doubt(evidence: Evidence, rules: Sequence[Rule], tried: Sequence[Probed], held: Sequence[Held]) -> str:
    """Return why a rule that no probe contradicts does not stand; '' if it does."""
    if not evidence.stands and not evidence.tested:
        of = f", true of the last {counted(evidence.true_of, 'case')} of a search" if evidence.true_of else ""
        return f"the time was over while it was put to the test{of}"
    if any(is_open(rule, tried) for rule in rules):
        return "no probe is close to one of its thresholds"
    least = min(held, key=lambda each: each.passing, default=None)
    if least is not None and least.passing < HELD:
        return f"no more than {least.passing} cases pass without {least.condition} alone"
    fading = any(fades(rule, tried) for rule in rules)
    return "near one of its thresholds err/budget is hardly above 1" if fading else ""


def _varied(evidence: Evidence, could: Sequence[str]) -> tuple[str, ...]:
    """Return those of the things that the probes differ in."""
    found = [what for what in could if len({traits.get(Feature("extent", what)) for traits in evidence.traits}) > 1]
    about = {trait for trait in set().union(*evidence.traits) if trait.hides}
    values = {tuple(value for trait, value in each.items() if trait in about) for each in evidence.traits}
    return (*found, *(["values"] if len(values) > 1 else []))
