"""Explaining: probes around a shrunk failure, and the rule of failing that agrees with them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.draw import GIVEN, Draw, Frame
from fuzz.base.verdict import Verdict
from fuzz.triage import probes
from fuzz.triage.closing import closing
from fuzz.triage.evidence import Evidence, differing, made_for, probe, probe_all, probe_elsewhere, says_something
from fuzz.triage.inducer import loosened
from fuzz.triage.masking import hiding, shown_in, shown_with, swamped, unmask
from fuzz.triage.places import Places, places_of
from fuzz.triage.refutation import refuting, searched
from fuzz.triage.rule import Learned, Rule, Traits
from fuzz.triage.thresholds import Probed, fades, is_open, is_rough, plainly
from fuzz.triage.traits import length_of, varied_sizes
from fuzz.triage.trial import KeepsStateError, OutOfTimeError, Trials
from fuzz.triage.values import is_about_values
from fuzz.triage.variations import base_of, filled, values_of, with_values
from oracles.ops import OPS

_STEADY = 8
"""Where this many row lengths in a row all fail, a law's other conditions are probed: there it is no matter of luck."""
_SURE = 320
"""Two orders of a sum hardly ever round alike over this many elements: where such a row fails, it is probed around."""
_CONFIRMED = 6
"""At most this many of the probes that failed are tried again in new processes: a kernel that keeps state would give a
rule of what it was called with before."""
_CONFIRMED_SLOWLY = 2
"""The same in an emulator, which starts slowly."""
_ROUNDS, _CLOSING = 5, 9
"""A rule is put to the test so many times at most, and the gaps at its thresholds are looked into so many times more:
each leaves a fifth of them."""
_SEARCHED, _SEARCHED_SLOWLY = 64, 16
"""So many cases of a search are among the probes that put a rule to the test each time."""
_CONVINCED = 2
"""A rule that has held in so many rounds without a probe against it is put to a longer test."""
_HELD, _HELD_SLOWLY, _AT_A_TIME = 1000, 250, 100
"""A rule that is true of so many cases of a search, one after the other, is taken for true: it is wrong of fewer than 3
in as many (of 1,000 at 95%). So many are tried before the rule is looked at again."""
_AGAIN = 3
"""So many further rounds a rule is put to the test after that has shown it to be wrong."""
_LOOKED_INTO, _LIKE = 2, 24
"""Where no more probes than the first contradict a rule, they are looked into, by so many with one thing changed.
Chosen, not measured."""
_NEAR = (1, 2, 3, 5, 8, 12, 16, 31, 64, 100, 129)
"""Row lengths of probes like it: short ones, since what fails takes the longer the more elements it has."""
_PUT = 6
"""So many probes must have been drawn inside an alternative for it to stand."""
_HARDLY_ANY = 0.9
"""Where more than this share of row lengths fail, no further ones are probed: a probe that fails takes ten times as
long as one that passes, since the oracle confirms each failure. Chosen, not measured."""
_CLEARLY = 100.0
"""A failure with at least this err/budget is not hidden by a row a few times as long."""
_PLAINLY = (GIVEN, "ones", "integers", "normal", "tiny")
"""A failure may be clearer with these values."""
VARIED = ("n", "rows", "values")
"""What every probing of an input of a row op varies."""


@dataclass(frozen=True)
class Explanation:
    """When it fails, and where in the output."""

    learned: Learned | None
    """What the probes taught; None where there was no time for a single one, or nothing that could be varied."""
    places: Places | None
    """Where the bad elements are; None where no element is known to be bad, as after a fault or a broken law."""
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
    """The rule is true of so many cases of a search, the last that were tried."""
    varied: tuple[str, ...] = VARIED
    """What of `could_vary` the probes differ in."""
    whole: bool = True
    """This is False where time was over before everything was probed: what was not varied yet is in no rule."""
    hides: str = ""
    """Where these values are, as far as one rule says so; '' where none does."""
    hidden: int = 0
    """So many probes pass, and fail with ordinary values in place of their own, in the finest dtype; they count neither
    for nor against the rule."""
    shown_in: frozenset[str] = frozenset()
    """The dtypes of the first input that may hide it though it failed in them."""
    shown_with: tuple[Mapping[str, float], ...] = ()
    """Parameters with which it failed clearly."""
    shown_by: tuple[str, ...] = ()
    """The recipes of plain values that show it."""
    could_vary: tuple[str, ...] = VARIED
    """What every probing of an input varies, where there is time for it."""
    doubt: str = ""
    """Why a rule that agrees with every probe does not stand."""

    @property
    def rule(self) -> Rule | None:
        """The rule of this failure, where it agrees with all probes but a few."""
        return self.learned.rule if self.whole and self.learned is not None and self.learned.sound else None

    def lines(self) -> list[str]:
        """In the words of a user, with the evidence counted."""
        said = []
        if self.learned is not None:
            said.append(self._rule_line(self.learned, f"breaks {self.law}" if self.law else "fails"))
        said += [f"fails also when: {band}" for band in self.core.bands] if self.core is not None else []
        if self.places is not None:
            said.append(f"bad elements: {self.places}")
        return said

    def _rule_line(self, learned: Learned, fails: str) -> str:
        stated = "; or ".join(map(rule_text, (learned.rule, *learned.others), self.cores))
        counted = f"{learned.agreeing} of {learned.probes} probes agree"
        if any(self.tested):
            inside, outside = self.tested
            counted += f", {inside + outside} of them drawn to refute it: {inside} inside, {outside} outside"
        if self.hidden:
            where = f", mostly where {self.hides}" if self.hides else ""
            stated = f"{stated or 'always'}, unless values or a coarse dtype hide it{where}"
            counted += f"; {self.hidden} more fail{'s' * (self.hidden == 1)} only with ordinary values"
        if self.stands and self.true_of:
            counted += f"; it is true of the last {self.true_of:,} cases of a search"
        if not self.whole:
            return (
                f"{fails} about when: {stated or 'always'} ({counted}; the time was over before everything was probed)"
            )
        if not learned.sound:
            return f"{fails} about when: {stated} ({counted}; no simple rule fits)"
        if not learned.rule.atoms:
            counted = f"{learned.agreeing} of {learned.probes} probes fail"
            fixed = [what for what in self.could_vary if what not in self.varied]
            stated = f"always, as far as is known: not varied were {', '.join(fixed)}" if fixed else stated or "always"
        counted += f"; {self.doubt}" if learned.exact and self.doubt else ""
        return f"{fails} {'' if learned.exact and self.stands else 'about '}when: {stated} ({counted})"


def rule_text(rule: Rule, core: Rule) -> str:
    """The rule; what is not in its core, and so no cause, comes last: values with which the failure does not show."""
    hiding = [atom for atom in rule.atoms if atom not in core.atoms]
    if not hiding or not core.atoms:
        return str(rule) or "always"
    return f"{core}; it shows only where {Rule(tuple(hiding))}"


def explain(trials: Trials, case: Case, siblings: Sequence[Target] = ()) -> Explanation:
    """Probe around a shrunk case, on its target and on the kernel's other ones, until the trials' time is over.

    Raises KeepsStateError where what fails does so because of earlier probes.
    """
    law = trials.family.law.name if trials.family.law is not None else ""
    return concluded(evidence_of(trials, case, siblings), law)


def evidence_of(trials: Trials, case: Case, siblings: Sequence[Target] = ()) -> Evidence:
    """What is probed around a shrunk case. Raises KeepsStateError as `explain` does."""
    evidence = Evidence()
    # Around the failure a boundary case fails as well.
    anyhow = replace(trials, family=replace(trials.family, clear=0.0, wide=True))
    with contextlib.suppress(OutOfTimeError):
        probe(anyhow, [case], evidence)
        frame = Frame(case)
        if not frame.fits() or (OPS[case.op].by_rows and not math.prod(frame.grid)):
            evidence.whole = True  # there is nothing to vary
            return evidence
        base = filled(base_of(case))
        if trials.family.name == "values":
            base = _clearest(anyhow, case, base)
        _probe_around(anyhow, base, int(case.digest[:15], 16), evidence)
        if not evidence.bad:
            raise KeepsStateError  # it failed after other calls, and not any more
        confirmed = _CONFIRMED_SLOWLY if trials.target.emulated else _CONFIRMED
        for failure, _ in evidence.bad[:: -(-len(evidence.bad) // confirmed)]:
            anyhow.confirm(failure)
        others = differing(trials.target, siblings)
        failing = _failing_lengths(evidence, base)
        if others:
            probe_elsewhere(anyhow, others, lambda other: probes.elsewhere(base, other, failing), evidence)
        evidence.whole = True
        _refute(anyhow, base, int(case.digest[15:30], 16), evidence)
        evidence.tested = True
        if not evidence.masking.hidden:
            probe_all(anyhow, swamped(evidence), evidence)
            unmask(anyhow, evidence)
    return evidence


def _probe_around(trials: Trials, base: Draw, key: int, evidence: Evidence) -> None:
    target, law = _probed(trials), trials.family.law is not None
    telling, others = probes.swept(base, target, few=law)
    probe_all(trials, telling, evidence)
    if sum(evidence.failed) <= _HARDLY_ANY * len(evidence.failed):
        probe_all(trials, others, evidence)
    failing = _failing_lengths(evidence, base)
    if law:
        steady = next((n for n in failing if {*range(n, n + _STEADY)} <= {*failing}), base.n)
        base = replace(base, n=next((n for n in failing if n >= _SURE), steady))
        failing = [n for n in failing if n >= base.n]
    probe_all(trials, probes.changed(base, target, law=law), evidence)
    failing = failing if law else _failing_lengths(evidence, base)
    probe_all(trials, probes.mixed(base, target, failing, key, few=law), evidence)


def _probed(trials: Trials) -> Target:
    """The target for which probes are drawn: as of one that runs slowly where each has a process of its own."""
    return replace(trials.target, costly=trials.target.costly or trials.fresh)


def _refute(trials: Trials, base: Draw, key: int, evidence: Evidence) -> None:
    """Put the rule to the test, and the next one where it does not stand, until one is not refuted again."""

    def known(draw: Draw) -> Traits | None:
        return next((trials.traits(case) for case in made_for([draw], trials)), None)

    held, law = 0, trials.family.law is not None
    drawn, slowly = searched(trials.target, key), _probed(trials).costly
    searches = 0 if law else _SEARCHED_SLOWLY if slowly else _SEARCHED
    most, rounds, number, true_of = 0 if law else _HELD_SLOWLY if slowly else _HELD, _ROUNDS, 0, 0
    while number < rounds + _CLOSING:
        unmask(trials, evidence)
        induced = evidence.induced()
        tried, before = evidence.counted_probes(), len(evidence.failed)
        draws: Iterable[Draw] = ()
        longer = held >= _CONVINCED and true_of < most
        if held < _CONVINCED and number < rounds:
            masked, seed = evidence.masking.only_hide, key + number
            draws = refuting(base, _probed(trials), induced, tried, known, seed, law=law, hidden=masked)
        elif not longer:
            draws = closing(base, induced.learned.rule, tried, known)
        probe_all(trials, draws, evidence)
        middle = len(evidence.failed)
        some = islice(drawn, _AT_A_TIME if longer else searches if held < _CONVINCED else 0)
        probe(trials, [case for case in some if says_something(case, trials)], evidence)
        new = range(before, len(evidence.failed))
        evidence.tests += new
        unmask(trials, evidence)
        hidden = evidence.masking.hidden
        against = [
            p for p in new if p not in hidden and induced.learned.holds(evidence.traits[p]) != evidence.failed[p]
        ]
        true_of = 0 if against else true_of + len(evidence.failed) - middle
        # What is invalid for several reasons may be rejected for another one than is said of it.
        rare = len(against) <= _LOOKED_INTO and not law and trials.family.name != "accepted invalid"
        for place in against if rare else ():
            look_into(trials, evidence.cases[place], key + number, evidence)
        if against and longer:
            rounds = min(number + 1 + _AGAIN, _ROUNDS + _CLOSING)
        held = 0 if against else held + 1
        number += not longer or bool(against)
        evidence.stands, evidence.true_of = held >= _CONVINCED and true_of >= most, true_of
        if evidence.stands and not (new and is_rough(evidence.induced().learned.rule, evidence.counted_probes())):
            return


def look_into(trials: Trials, exception: Case, key: int, evidence: Evidence) -> None:
    """Probe around a case that contradicts the rule. Of its kind it may be the only one so far, and one exception is
    worth no condition."""
    if not Frame(exception).fits():
        return
    base, before = filled(base_of(exception)), len(evidence.failed)
    changed = list(probes.changed(base, _probed(trials)))
    one_in = -(-len(changed) // _LIKE)
    probe_all(trials, [*(replace(base, n=n) for n in _NEAR), *changed[key % one_in :: one_in]], evidence)
    evidence.tests += range(before, len(evidence.failed))


def _clearest(trials: Trials, case: Case, base: Draw) -> Draw:
    """The base, or what of it fails most clearly with other values, or with another parameter that goes with their
    scale, where it fails by little itself: else a slightly longer row would hide the failure, and the rule would be
    about what hides it.

    Where tensors share memory, or places say which element is meant, the values are rather drawn ones: of plain ones
    many are the same when written over, and wherever they are taken from.
    """
    own, op = trials.judge([case])[0], OPS[base.op]
    moved = not case.apart or bool(op.counted)
    if own is None or own.verdict is not Verdict.FAIL_NUMERIC or (own.ratio >= _CLEARLY and not moved):
        return base
    clear = [(own.ratio, base)]
    scaled = [base.with_params(**{p.name: v}) for p in op.parameters if p.power for v in values_of(base, p)]
    for values in _PLAINLY:
        variants = [with_values(draw, values, 1) for draw in (base, *scaled)]
        tried = [(variant, each) for variant in variants for each in made_for([variant], trials)]
        judgements = trials.judge([each for _, each in tried])
        for (variant, each), judgement in zip(tried, judgements, strict=True):
            if judgement is not None and judgement.verdict is own.verdict and trials.holds(each, judgement):
                clear.append((judgement.ratio, variant))
    if moved:
        drawn = [found for found in clear if found[1].part(op.main).recipe == "normal" and found[0] >= _CLEARLY]
        clear = drawn or clear
    return max(clear, key=lambda found: found[0])[1]


def _failing_lengths(evidence: Evidence, base: Draw) -> list[int]:
    n, length = base.n, length_of(OPS[base.op])
    failing = (traits for traits, failed in zip(evidence.traits, evidence.failed, strict=True) if failed)
    return sorted({int(traits[length]) for traits in failing}) or [n]


def concluded(evidence: Evidence, law: str) -> Explanation:
    """What the evidence says."""
    if not any(evidence.failed):
        return Explanation(None, places_of(evidence.bad), law, whole=evidence.whole)
    counted, tried = evidence.counted(), evidence.counted_probes()
    learned = plainly(evidence.induced().learned, tried)
    # Probes that were drawn to refute it are about its exceptions more often than not.
    tests = {*evidence.tests}
    usual = evidence.tried(place for place in counted if place not in tests)
    cores = tuple(loosened(rule, *usual) for rule in (learned.rule, *learned.others))
    core = cores[0] if evidence.whole and learned.sound and cores[0].atoms else None
    own = evidence.bad
    if learned.others:
        shown = [each.traits for each in tried if each.failed]
        own = [failure for failure, each in zip(own, shown, strict=True) if learned.rule.holds(each)]
    alike = [failure for failure in own if failure[0].origin.shard is None]  # of all sorts of cases there is no pattern
    inside = [learned.holds(evidence.traits[place]) for place in counted if place in tests]
    tested = sum(inside), len(inside) - sum(inside)
    rules, put = (learned.rule, *learned.others), [evidence.traits[place] for place in counted if place in tests]
    doubt = _doubt(evidence, rules, tried)
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
    return Explanation(learned, places_of(alike or own), law, core, *about)


def _doubt(evidence: Evidence, rules: Sequence[Rule], tried: Sequence[Probed]) -> str:
    """Why a rule does not stand that no probe contradicts."""
    if not evidence.stands and not evidence.tested:
        of = f", true of the last {evidence.true_of:,} cases of a search" if evidence.true_of else ""
        return f"the time was over while it was put to the test{of}"
    if any(is_open(rule, tried) for rule in rules):
        return "no probe is close to one of its thresholds"
    fading = any(fades(rule, tried) for rule in rules)
    return "near one of its thresholds err/budget is hardly above 1" if fading else ""


def _varied(evidence: Evidence, could: Sequence[str]) -> tuple[str, ...]:
    """What of that the probes differ in."""
    found = [what for what in could if len({traits.get(what) for traits in evidence.traits}) > 1]
    values = {tuple(value for trait, value in each.items() if is_about_values(trait)) for each in evidence.traits}
    return (*found, *(["values"] if len(values) > 1 else []))
