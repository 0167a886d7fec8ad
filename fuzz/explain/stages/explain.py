"""Explaining: probing around a shrunk failure, and learning the rule of failing that agrees with the probes. The rule
is tested in rounds until no probe refutes it. Each round has a stage, which follows from the results of the earlier
ones."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import islice

from fuzz.core.adapters.target import Target
from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case
from fuzz.core.base.draw import GIVEN, Draw, Frame
from fuzz.core.base.feature import Feature
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate import variations as vary
from fuzz.core.generate.dims import CHEAP_WORK, MOST_WORK
from fuzz.core.judge.judge import Judgement
from fuzz.explain.evidence import probes
from fuzz.explain.evidence.evidence import (
    Evidence,
    closing,
    differing,
    made_for,
    probe,
    probe_all,
    probe_each,
    probe_elsewhere,
    says_something,
)
from fuzz.explain.evidence.masking import swamped, unmask
from fuzz.explain.evidence.refutation import arranged, matter, refuting, searched
from fuzz.explain.explanation import Suggestion
from fuzz.explain.rule.bounds import is_rough
from fuzz.explain.rule.rule import Traits
from fuzz.explain.stages.conclusion import Conclusion, concluded
from fuzz.explain.trial.trial import KeepsStateError, OutOfTimeError, Trials
from oracles.dtypes import form
from oracles.ops import OPS

_STEADY = 8
"""The number of consecutive row lengths that must all fail for a law to be probed there: then luck plays no part."""
_SURE = 320
"""The number of elements over which two orders of a sum hardly ever round alike: such a failing row is preferred."""
_CONFIRMED = 6
"""The most failing probes that are repeated in new processes. If a kernel keeps state, its rule would be about the
calls before each probe."""
_CONFIRMED_SLOWLY = 2
"""The same in an emulator and on a GPU, where processes start slowly. Measured on an H100: six took 6.9 of 40 s."""
_SEVERAL = 3
"""The failures without elements that a rule about empty cases needs: one in a hundred cases of a search is empty."""
_HARDLY_ANY = 0.9
"""The share of failing row lengths above which no further lengths are probed: a failing probe takes ten times as long
as a passing one, since the oracle confirms each failure. Chosen, not measured."""
_CLEARLY = 100.0
"""The err/budget of a failure that a row a few times as long does not hide."""
_PLAINLY = (GIVEN, "ones", "integers", "normal", "tiny")
"""The recipes with which a failure may be clearer."""


def explain(trials: Trials, case: Case, siblings: Sequence[Target] = ()) -> Conclusion:
    """Return the conclusion from probes around a shrunk case, on its target and on the kernel's other targets, until
    the trials' time is over. Raises KeepsStateError if the case fails because of earlier probes."""
    law = trials.family.law.name if trials.family.law is not None else ""
    evidence = evidence_of(trials, case, siblings)
    return replace(concluded(evidence, law), suggestion=declaring(trials.target.kernel.capability, evidence))


def evidence_of(trials: Trials, case: Case, siblings: Sequence[Target] = ()) -> Evidence:
    """Return the probes around a shrunk case, with their results. Raises KeepsStateError as `explain` does."""
    evidence = Evidence()
    # A probe near the failure that fails by little counts as a failure, too.
    anyhow = replace(trials, family=replace(trials.family, clear=0.0, wide=True))
    with contextlib.suppress(OutOfTimeError):
        probe(anyhow, [case], evidence)
        frame = Frame(case)
        is_empty = frame.fits() and len(OPS[case.op].named) == 1 and not math.prod(frame.grid)
        if is_empty or not frame.fits():
            evidence.whole = evidence.tested = True  # there is nothing to vary
            return _beside_nothing(anyhow, case, evidence) if is_empty else evidence
        base = vary.filled(vary.base_of(case))
        anyhow = replace(anyhow, work=max(anyhow.work, min(LARGER * base.work, MOST_WORK)), room=base.work * 9 // 8)
        if trials.family.name == "values":
            base = _clearest(anyhow, case, base)
        elif trials.family.law is not None:
            base = _finest(anyhow, base)
        _probe_around(anyhow, base, int(case.digest[:15], 16), evidence)
        if not evidence.bad and not trials.fresh:
            raise KeepsStateError  # the case failed after other calls, and does not fail any more
        if not evidence.bad:
            return evidence  # every failure around it belongs to another finding
        confirmed = _CONFIRMED_SLOWLY if trials.target.emulated or trials.target.shares else _CONFIRMED
        for failure, _ in evidence.bad[:: -(-len(evidence.bad) // confirmed)]:
            anyhow.confirm(failure)
        others = differing(trials.target, siblings)
        failing = _failing_lengths(evidence, base)
        if others:
            probe_elsewhere(anyhow, others, lambda other: probes.elsewhere(base, other, failing), evidence)
        evidence.whole = True
        put_to_test(anyhow, base, int(case.digest[15:30], 16), evidence)
        evidence.tested = True
        if not evidence.masking.hidden:
            probe_all(anyhow, swamped(evidence), evidence)
            unmask(anyhow, evidence)
        if not (evidence.stands and evidence.induced().learned.exact and concluded(evidence, "").certain):
            _draw_on(anyhow, int(case.digest[30:45], 16), evidence)
    return evidence


def _beside_nothing(trials: Trials, case: Case, alone: Evidence) -> Evidence:
    """Return the evidence about cases with elements, around an empty failing case, from cases of a search; if few of
    these fail, a rule would be chance, and the evidence stays as it was."""
    evidence = alone.beside = Evidence()
    drawn = islice(searched(trials.target, int(case.digest[:15], 16)), enough(trials))
    probe(trials, [case, *(each for each in drawn if trials.target.kernel.capability.accepts(each))], evidence)
    if sum(evidence.failed) < _SEVERAL:
        return alone
    evidence.whole = evidence.tested = True
    evidence.stands, evidence.true_of = evidence.induced().learned.exact, len(evidence.failed) - 1
    return evidence


def _draw_on(trials: Trials, key: int, evidence: Evidence) -> None:
    """Probe cases of a search, to find the bounds of a failure that no rule fits."""
    before = len(evidence.failed)
    some = islice(searched(trials.target, key), enough(trials))
    probe_each(trials, [each for each in some if says_something(each, trials)], evidence)
    unmask(trials, evidence)
    evidence.drawn = before


def _probe_around(trials: Trials, base: Draw, key: int, evidence: Evidence) -> None:
    target, law = probed_as(trials), trials.family.law is not None
    probe_all(trials, [] if law else probes.spread(base), evidence)
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
    if not law and matter({case.origin.recipe for case, _ in evidence.bad}):
        probe_all(trials, arranged(base, slowly=target.costly), evidence)
    failing = failing if law else _failing_lengths(evidence, base)
    probe_all(trials, probes.mixed(base, target, failing, key, few=law), evidence)


def _clearest(trials: Trials, case: Case, base: Draw) -> Draw:
    """Return the failing variant of the base with the largest err/budget, among other values and parameters, if the
    base fails by little: otherwise a slightly longer row would hide the failure, and the rule would be about hiding. If
    tensors share memory, or an input holds indices, random values are preferred: many plain values are equal, so that
    overwriting them, or reading others, shows nothing."""
    own, op = trials.judge([case])[0], OPS[base.op]
    moved = not case.apart or any(op.integers.values())
    if own is None or own.verdict is not Verdict.FAIL_NUMERIC or (own.ratio >= _CLEARLY and not moved):
        return base
    clear = [(own.ratio, base)]
    scaled = [base.with_params(**{p.name: v}) for p in op.parameters if p.power for v in vary.values_of(base, p)]
    for values in _PLAINLY:
        variants = [vary.with_values(draw, values, 1) for draw in (base, *scaled)]
        tried = [(variant, each) for variant in variants for each in made_for([variant], trials)]
        judgements = trials.judge([each for _, each in tried])
        for (variant, each), judgement in zip(tried, judgements, strict=True):
            if judgement is not None and judgement.verdict is own.verdict and trials.holds(each, judgement):
                clear.append((judgement.ratio, variant))
    if moved:
        drawn = [found for found in clear if found[1].part(op.main).recipe == "normal" and found[0] >= _CLEARLY]
        clear = drawn or clear
    return max(clear, key=lambda found: found[0])[1]


def _finest(trials: Trials, base: Draw) -> Draw:
    """Return the base in the finest dtype in which the law is broken for some values: in a coarse dtype two orders of a
    sum mostly round alike, and luck would decide the probes."""
    for dtype in sorted(trials.target.kernel.able.dtypes, key=lambda each: form(each).u):
        finer, tried = vary.of_dtype(base, dtype), Evidence()
        probe_all(trials, [finer], tried)
        if any(tried.failed):
            return finer
    return base


def _failing_lengths(evidence: Evidence, base: Draw) -> list[int]:
    n, length = base.n, Feature("extent", OPS[base.op].row)
    failing = (traits for traits, failed in zip(evidence.traits, evidence.failed, strict=True) if failed)
    return sorted({int(traits[length]) for traits in failing}) or [n]


_DIFFERENT = 2
"""The least number of different extents that must fail, and pass, for an extent to be taken for the cause."""


def declaring(capability: Capability, evidence: Evidence) -> Suggestion | None:
    """Return a declaration that would refuse all failing cases and no passing one: that nothing is empty, that an
    extent is a multiple, or its maximum. Return None if none fits, or if a failure is no refusal by an exception. A
    maximum is only suggested if the kernel itself refuses."""
    told = [evidence, *([evidence.beside] if evidence.beside is not None else [])]
    bad = [judgement for each in told for _, judgement in each.bad]
    refused = all(each.raised or each.verdict is Verdict.REJECTED for each in bad)
    tried = [pair for each in told for pair in zip(each.cases, each.failed, strict=True)]
    failing, passing = ([case for case, failed in tried if failed is wanted] for wanted in (True, False))
    if not refused or not failing or not passing:
        return None
    if capability.empty and all(map(_is_empty, failing)) and not all(map(_is_empty, passing)):
        return Suggestion("Capabilities(empty=False)", len(failing), len(passing))
    for dim in OPS[capability.op].named if capability.able.multiple_of == {} else ():
        step = _step(dim, failing, passing)
        if step:
            says = f"Capabilities(multiple_of={{{dim!r}: {step}}})"
            return Suggestion(says, len(failing), len(passing), dim, step)
    for dim in OPS[capability.op].named if capability.able.max == {} and all(map(_is_own, bad)) else ():
        most = _most(dim, failing, passing)
        if most:
            return Suggestion(f"Capabilities(max={{{dim!r}: {most}}})", len(failing), len(passing), dim)
    return None


def _is_own(judgement: Judgement) -> bool:
    """Return whether the kernel itself refuses, and not a function that it calls, which may raise because of a bug."""
    return judgement.verdict is Verdict.REJECTED or judgement.reason.startswith("AssertionError")


def _most(dim: str, failing: Sequence[Case], passing: Sequence[Case]) -> int:
    """Return the extent up to which cases pass and beyond which they fail; 0 if there is none."""
    fails, passes = ({Frame(case).sizes.get(dim, 0) for case in cases} for cases in (failing, passing))
    is_told = len(fails) >= _DIFFERENT and max(passes) + 1 == min(fails)
    return max(passes) if is_told else 0


def _step(dim: str, failing: Sequence[Case], passing: Sequence[Case]) -> int:
    """Return the number of which all passing extents are multiples and no failing one is; 0 if there is none."""
    fails, passes = ({Frame(case).sizes.get(dim, 0) for case in cases} for cases in (failing, passing))
    step = math.gcd(*passes)
    many = len(fails) >= _DIFFERENT and len(passes - {0}) >= _DIFFERENT
    return step if many and step > 1 and all(extent % step for extent in fails) else 0


def _is_empty(case: Case) -> bool:
    return any(tensor.layout.size == 0 for tensor in case.tensors.values())


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
_LOOKED_INTO, _MOST_LOOKED_INTO = 2, 6
"""Probes that contradict a rule are probed around if a round has at most the first number of them, and at most the
second in all, since this does not mend a rule that is wrong again and again. Chosen, not measured."""
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
    changed = probes.some_changed(base, probed_as(trials), key)
    probe_all(trials, [*(replace(base, n=n) for n in _NEAR), *changed], evidence)
    evidence.tests += range(before, len(evidence.failed))
