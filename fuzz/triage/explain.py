"""Explaining: probes around a shrunk failure, and the rule of failing that agrees with them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from fuzz.adapters.target import NotRun, Target
from fuzz.base.case import Case, CaseError
from fuzz.base.draw import GIVEN, Draw, Frame
from fuzz.base.verdict import Verdict
from fuzz.execute.pool import WorkerPool
from fuzz.judge.judge import Judgement
from fuzz.triage import probes
from fuzz.triage.inducer import induce, learn, loosened
from fuzz.triage.places import Places, places_of
from fuzz.triage.refutation import refuting
from fuzz.triage.rule import Learned, Rule, Traits
from fuzz.triage.trial import OutOfTimeError, Trials
from fuzz.triage.values import is_about_values
from fuzz.triage.variations import base_of, made, values_of, with_values
from oracles.ops import OPS

_BATCH = 16
_VARIANTS = (3, 9)
"""A law is tried on this many other values besides the case's own, in two goes: whether two orders of a sum differ is a
matter of luck."""
_STEADY = 8
"""Where this many row lengths in a row all fail, a law's other conditions are probed: there it is no matter of luck."""
_SURE = 320
"""Two orders of a sum hardly ever round alike over this many elements: where such a row fails, it is probed around."""
_CONFIRMED = 6
"""At most this many of the probes that failed are tried again in new processes: a kernel that keeps state would give a
rule of what it was called with before."""
_LARGEST = 1 << 13
_LARGEST_ROW = 1 << 16
"""No probe may have more elements than the first, unless the failing row itself is long: the oracle looks at every
element of a failure in high precision. No probe may have more than the second."""
_ROUNDS = 7
"""A rule is put to the test so many times at most."""
_CONVINCED = 2
"""A rule that has held in so many rounds without a probe against it is taken for true."""
_FEW_ROWS = 3
_CLEARLY = 100.0
"""A failure with at least this err/budget is not hidden by a row a few times as long."""
_PLAINLY = (GIVEN, "ones", "integers", "normal", "tiny")
"""A failure may be clearer with these values."""


VARIED = ("n", "rows", "values")
"""What every probing of an input varies, where there is time for it."""


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
    varied: tuple[str, ...] = VARIED
    """What of VARIED the probes differ in."""

    @property
    def rule(self) -> Rule | None:
        """The rule of this failure, where it agrees with all probes but a few."""
        return self.learned.rule if self.learned is not None and self.learned.sound else None

    def lines(self) -> list[str]:
        """In the words of a user, with the evidence counted."""
        said = []
        if self.learned is not None:
            said.append(self._rule_line(self.learned, f"breaks {self.law}" if self.law else "fails"))
        if self.places is not None:
            said.append(f"bad elements: {self.places}")
        return said

    def _rule_line(self, learned: Learned, fails: str) -> str:
        stated = "; or ".join(map(rule_text, (learned.rule, *learned.others), self.cores))
        counted = f"{learned.agreeing} of {learned.probes} probes agree"
        if any(self.tested):
            inside, outside = self.tested
            counted += f", {inside + outside} of them drawn to refute it: {inside} inside, {outside} outside"
        if not learned.sound:
            return f"{fails} about when: {stated} ({counted}; no simple rule fits)"
        if not learned.rule.atoms:
            counted = f"{learned.agreeing} of {learned.probes} probes fail"
            fixed = [what for what in VARIED if what not in self.varied]
            stated = f"always, as far as is known: not varied were {', '.join(fixed)}" if fixed else "always"
        return f"{fails} {'' if learned.exact else 'about '}when: {stated} ({counted})"


def rule_text(rule: Rule, core: Rule) -> str:
    """The rule; what is not in its core, and so no cause, comes last: values with which the failure does not show."""
    hiding = [atom for atom in rule.atoms if atom not in core.atoms]
    if not hiding or not core.atoms:
        return str(rule) or "always"
    return f"{core}; it shows only where {Rule(tuple(hiding))}"


@dataclass
class _Evidence:
    """What was probed so far."""

    traits: list[Traits] = field(default_factory=list)
    failed: list[bool] = field(default_factory=list)
    bad: list[tuple[Case, Judgement]] = field(default_factory=list)
    probed: set[tuple[str, str]] = field(default_factory=set)
    """The target and digest of each probe: no probe counts twice. What shrinking has judged counts too: it knows what
    passes."""

    tests: list[int] = field(default_factory=list)
    """The places of the probes that were drawn to refute a rule."""

    def fresh(self, cases: Sequence[Case], trials: Trials) -> list[Case]:
        """Those of the cases that were not probed yet."""
        found = {}
        for case in cases:
            if (trials.target.id, case.digest) not in self.probed:
                self.probed.add((trials.target.id, case.digest))
                found[case.digest] = case
        return list(found.values())

    def add(self, case: Case, trials: Trials, judgement: Judgement, *, fails: bool) -> None:
        self.traits.append(trials.traits(case))
        self.failed.append(fails)
        if fails:
            self.bad.append((case, judgement))


def explain(trials: Trials, case: Case, siblings: Sequence[Target] = ()) -> Explanation:
    """Probe around a shrunk case, on its target and on the kernel's other ones, until the trials' time is over.

    Raises KeepsStateError where what fails does so because of earlier probes.
    """
    evidence, law = _Evidence(), trials.family.law.name if trials.family.law is not None else ""
    # Around the failure a boundary case fails as well.
    anyhow = replace(trials, family=replace(trials.family, clear=0.0, wide=True))
    with contextlib.suppress(OutOfTimeError):
        _probe(anyhow, [case], evidence)
        if not Frame(case).fits() or not math.prod(Frame(case).grid):
            return _concluded(evidence, law)
        base = base_of(case)
        if trials.family.name == "values":
            base = _clearest(anyhow, case, base)
        _probe_around(anyhow, base, int(case.digest[:15], 16), evidence)
        for failure, _ in evidence.bad[:: -(-len(evidence.bad) // _CONFIRMED)]:
            anyhow.confirm(failure)
        others = [target for target in siblings if target.id != trials.target.id]
        failing = _failing_lengths(evidence, base.n)
        if others:
            _probe_elsewhere(anyhow, others, list(probes.elsewhere(base, failing)), evidence)
        _refute(anyhow, base, int(case.digest[15:30], 16), evidence)
    return _concluded(evidence, law)


def _probe_around(trials: Trials, base: Draw, key: int, evidence: _Evidence) -> None:
    target, law = trials.target, trials.family.law is not None
    _probe_all(trials, probes.swept(base, target, few=law), evidence)
    failing = _failing_lengths(evidence, base.n)
    if law:
        steady = next((n for n in failing if {*range(n, n + _STEADY)} <= {*failing}), base.n)
        base = replace(base, n=next((n for n in failing if n >= _SURE), steady))
        failing = [n for n in failing if n >= base.n]
    _probe_all(trials, probes.changed(base, target, law=law), evidence)
    failing = failing if law else _failing_lengths(evidence, base.n)
    _probe_all(trials, probes.mixed(base, target, failing, key, few=law), evidence)


def _refute(trials: Trials, base: Draw, key: int, evidence: _Evidence) -> None:
    """Put the rule to the test, and the next one where it does not stand, until one is not refuted again."""

    def known(draw: Draw) -> Traits | None:
        return next((trials.traits(case) for case in _made([draw], trials)), None)

    held = 0
    for number in range(_ROUNDS):
        induced = induce(evidence.traits, evidence.failed, evidence.failed.index(True))
        tried, before = list(zip(evidence.traits, evidence.failed, strict=True)), len(evidence.failed)
        law = trials.family.law is not None
        draws = refuting(base, trials.target, induced, tried, known, key + number, law=law)
        _probe_all(trials, draws, evidence)
        new = range(before, len(evidence.failed))
        evidence.tests += new
        against = [place for place in new if induced.learned.holds(evidence.traits[place]) != evidence.failed[place]]
        held = 0 if against else held + 1
        if held == _CONVINCED:
            break


def _clearest(trials: Trials, case: Case, base: Draw) -> Draw:
    """The base, or what of it fails most clearly with other values, or with another parameter that goes with their
    scale, where it fails by little itself: else a slightly longer row would hide the failure, and the rule would be
    about what hides it.

    Where tensors share memory the values are rather drawn ones: of plain ones many are the same when written over.
    """
    own = trials.judge([case])[0]
    if own is None or own.verdict is not Verdict.FAIL_NUMERIC or (own.ratio >= _CLEARLY and case.apart):
        return base
    op, clear = OPS[base.op], [(own.ratio, base)]
    scaled = [base.with_params(**{p.name: v}) for p in op.parameters if p.power for v in values_of(base, p)]
    for values in _PLAINLY:
        variants = [with_values(draw, values, 1) for draw in (base, *scaled)]
        tried = [(variant, each) for variant in variants for each in _made([variant], trials)]
        judgements = trials.judge([each for _, each in tried])
        for (variant, each), judgement in zip(tried, judgements, strict=True):
            if judgement is not None and judgement.verdict is own.verdict and trials.holds(each, judgement):
                clear.append((judgement.ratio, variant))
    if not case.apart:
        drawn = [found for found in clear if found[1].part(op.main).recipe == "normal" and found[0] >= _CLEARLY]
        clear = drawn or clear
    return max(clear, key=lambda found: found[0])[1]


def _probe_elsewhere(trials: Trials, others: Sequence[Target], draws: Sequence[Draw], evidence: _Evidence) -> None:
    with WorkerPool(others, limit=trials.target.case_limit) as pool:
        pool.watch = trials.pool.watch
        for target in others:
            if not isinstance(pool.statuses[target.id], NotRun):
                _probe_all(replace(trials, target=target, pool=pool, known={}), draws, evidence)


def _failing_lengths(evidence: _Evidence, n: int) -> list[int]:
    lengths = {int(t["n"]) for t, failed in zip(evidence.traits, evidence.failed, strict=True) if failed}
    return sorted(lengths) or [n]


def _probe_all(trials: Trials, draws: Iterable[Draw], evidence: _Evidence) -> None:
    if trials.family.law is None:
        _probe(trials, _made(draws, trials), evidence)
        return
    for draw in draws:
        first, more = _VARIANTS
        variants = [with_values(draw, "normal", seed) for seed in range(first + more)]
        goes = (_made([draw, *variants[:first]], trials), _made(variants[first:], trials))
        _probe_any(trials, goes, evidence)


def _made(draws: Iterable[Draw], trials: Trials) -> list[Case]:
    """The probes that can be made. What a kernel must reject says nothing of how it computes, and the other way."""
    invalid = trials.family.name == "accepted invalid"
    cases = []
    for draw in draws:
        if draw.rows * draw.n <= (_LARGEST if draw.rows > _FEW_ROWS else _LARGEST_ROW):
            with contextlib.suppress(CaseError):
                case = made(draw)
                if invalid or trials.target.kernel.capability.accepts(case):
                    cases.append(case)
    return cases


def _probe(trials: Trials, cases: Sequence[Case], evidence: _Evidence) -> None:
    fresh = evidence.fresh(cases, trials)
    for start in range(0, len(fresh), _BATCH):
        batch = fresh[start : start + _BATCH]
        for case, judgement in zip(batch, trials.judge(batch), strict=True):
            if judgement is not None and not trials.is_explained(case):
                evidence.add(case, trials, judgement, fails=trials.family.holds(judgement))


def _probe_any(trials: Trials, goes: Sequence[Sequence[Case]], evidence: _Evidence) -> None:
    """Cases that differ in their values only, as one probe: it fails where one of them does. A further go is for those
    of which none failed yet."""
    judged: list[tuple[Case, Judgement]] = []
    for cases in goes:
        judged += [
            (case, judgement)
            for case, judgement in zip(cases, trials.judge(cases), strict=True)
            if judgement is not None and not trials.is_explained(case)
        ]
        failing = [(case, judgement) for case, judgement in judged if trials.family.holds(judgement)]
        if failing:
            evidence.add(failing[0][0], trials, failing[0][1], fails=True)
            return
    if judged:
        evidence.add(judged[0][0], trials, judged[0][1], fails=False)


def _concluded(evidence: _Evidence, law: str) -> Explanation:
    # The case itself was probed first.
    failed, traits = evidence.failed, evidence.traits
    if not any(failed):
        return Explanation(None, places_of(evidence.bad), law)
    learned = learn(traits, failed, failed.index(True))
    cores = tuple(loosened(rule, traits, failed) for rule in (learned.rule, *learned.others))
    core = cores[0] if learned.sound and cores[0].atoms else None
    own = evidence.bad
    if learned.others:
        shown = [each for each, bad in zip(traits, failed, strict=True) if bad]
        own = [failure for failure, each in zip(own, shown, strict=True) if learned.rule.holds(each)]
    inside = sum(learned.holds(traits[place]) for place in evidence.tests)
    tested = inside, len(evidence.tests) - inside
    return Explanation(learned, places_of(own), law, core, cores, tested, _varied(evidence))


def _varied(evidence: _Evidence) -> tuple[str, ...]:
    """What of VARIED the probes differ in."""
    found = [what for what in VARIED if len({traits.get(what) for traits in evidence.traits}) > 1]
    values = {tuple(value for trait, value in each.items() if is_about_values(trait)) for each in evidence.traits}
    return (*found, *(["values"] if len(values) > 1 else []))
