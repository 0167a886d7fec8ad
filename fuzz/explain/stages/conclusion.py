"""Conclusions: what the probes of a failure tell about when it fails, and where in the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fuzz.core.base.feature import Feature
from fuzz.core.base.text import counted
from fuzz.explain.attribute.attribution import places_of
from fuzz.explain.evidence.evidence import Evidence
from fuzz.explain.evidence.masking import hiding, shown_in, shown_with
from fuzz.explain.evidence.refutation import ARRANGED_RECIPE
from fuzz.explain.explanation import Held, Places, Suggestion
from fuzz.explain.rule.bounds import HELD, Probed, RuleBounds, bounds_of, fades, is_open, missing_alone, plainly
from fuzz.explain.rule.inducer import loosened
from fuzz.explain.rule.rule import Learned, Rule
from fuzz.explain.rule.traits import varied_sizes
from oracles.ops import OPS

_PUT = 6
"""The least number of refuting probes inside each of several alternatives, for the rule to stand."""
VARIED = ("n", "rows", "values")
"""The things that are always varied in probes of an input with rows."""


@dataclass(frozen=True)
class Conclusion:
    """The rule of a failure and the places of its bad elements, as far as probes tell."""

    learned: Learned | None
    """The rule that was learned; None if there was no time for a probe, or nothing to vary."""
    places: Places | None
    """The places of bad elements; None if none is known to be bad, as after a fault or a broken law."""
    law: str = ""
    """The name of the broken law; '' if none."""
    core: Rule | None = None
    """The rule without the conditions that only hide the failure, by which other failures are told from it."""
    cores: tuple[Rule, ...] = ()
    """The cores of the learned rule, sound or not, and of each of its alternatives."""
    tested: tuple[int, int] = (0, 0)
    """The numbers of probes that were drawn to refute the rule, inside it and outside it."""
    stands: bool = False
    """Whether the rule stood its test."""
    true_of: int = 0
    """The number of cases of a search that the rule fits: the last ones that were tried."""
    varied: tuple[str, ...] = VARIED
    """The members of `could_vary` in which the probes differ."""
    whole: bool = True
    """Whether all planned probes were run; if not, the rule says nothing about what was not varied."""
    hides: Rule | None = None
    """The values that hide the failure, if one condition describes them."""
    hidden: int = 0
    """The number of probes that pass, but fail with ordinary values in the finest dtype; they count neither for nor
    against the rule."""
    shown_in: frozenset[str] = frozenset()
    """The dtypes of the first input in which the failure showed, although they may also hide it."""
    shown_with: tuple[Mapping[str, float], ...] = ()
    """The parameters with which the failure was clear."""
    shown_by: tuple[str, ...] = ()
    """The recipes of plain values that show the failure."""
    could_vary: tuple[str, ...] = VARIED
    """The things that probes of the input vary, if there is time."""
    doubt: str = ""
    """The reason why a rule that agrees with every probe does not stand."""
    bounds: RuleBounds | None = None
    """A necessary and a sufficient condition if the rule is not certain, as far as there was time."""
    met: int = 0
    """The number of failing probes that meet the rule, plus the number of hidden ones."""
    held: tuple[Held, ...] = ()
    """The number of passing cases that support each condition of the rule."""
    suggestion: Suggestion | None = None
    """A declaration by which the kernel would refuse all failing cases, if one fits."""

    @property
    def rule(self) -> Rule | None:
        """The learned rule, if nearly all probes agree with it."""
        return self.learned.rule if self.whole and self.learned is not None and self.learned.sound else None

    @property
    def certain(self) -> bool:
        """Whether the rule is certain: all probes agree with it, and it stood its test."""
        return self.whole and self.learned is not None and self.learned.exact and self.stands


def concluded(evidence: Evidence, law: str) -> Conclusion:
    """Return the conclusion from the evidence."""
    if not any(evidence.failed):
        return Conclusion(None, places_of(evidence.bad), law, whole=evidence.whole)
    counted, tried = evidence.counted(), evidence.counted_probes()
    learned = plainly(evidence.induced().learned, tried)
    # The probes that were drawn to refute the rule are mostly near its limits, and so not usual; nor are sorted values.
    tests, origins = {*evidence.tests}, [case.origin for case in evidence.cases]
    usual = evidence.tried(p for p in counted if p not in tests and origins[p].recipe != ARRANGED_RECIPE)
    drawn = evidence.tried(place for place in counted if origins[place].shard is not None)
    cores = tuple(loosened(rule, usual, drawn) for rule in (learned.rule, *learned.others))
    core = cores[0] if evidence.whole and learned.sound and cores[0].atoms else None
    own = evidence.bad
    if learned.others:
        shown = [each.traits for each in tried if each.failed]
        own = [failure for failure, each in zip(own, shown, strict=True) if learned.rule.holds(each)]
    alike = [failure for failure in own if failure[0].origin.shard is None]  # random cases of a search show no pattern
    inside = [learned.holds(evidence.traits[place]) for place in counted if place in tests]
    tested = sum(inside), len(inside) - sum(inside)
    rules, put = (learned.rule, *learned.others), [evidence.traits[place] for place in counted if place in tests]
    held = tuple(Held(atom, len(missing_alone(atom, rule, tried))) for rule in rules for atom in rule.atoms)
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
    """Return a necessary and a sufficient condition; None if there was no time for random cases. If not all probes were
    made in time, the necessary condition is taken from the probes near a failure."""
    counted = evidence.counted()
    known = sum(place < evidence.drawn for place in counted) if evidence.drawn else len(counted)
    return bounds_of(*evidence.tried(counted), known) if evidence.drawn or not evidence.tested else None


def _doubt(evidence: Evidence, rules: Sequence[Rule], tried: Sequence[Probed], held: Sequence[Held]) -> str:
    """Return the reason why a rule that no probe contradicts does not stand; '' if it stands."""
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
    """Return the things in which the probes differ."""
    found = [what for what in could if len({traits.get(Feature("extent", what)) for traits in evidence.traits}) > 1]
    about = {trait for trait in set().union(*evidence.traits) if trait.hides}
    values = {tuple(value for trait, value in each.items() if trait in about) for each in evidence.traits}
    return (*found, *(["values"] if len(values) > 1 else []))
