"""Explaining: probes around a shrunk failure, and the rule of failing that agrees with them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from fuzz.core.adapters.target import Target
from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case
from fuzz.core.base.draw import GIVEN, Draw, Frame
from fuzz.core.base.feature import Feature
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate import variations as vary
from fuzz.core.generate.dims import MOST_WORK
from fuzz.core.judge.judge import Judgement
from fuzz.explain.evidence import probes
from fuzz.explain.evidence.evidence import (
    Evidence,
    differing,
    made_for,
    probe,
    probe_all,
    probe_each,
    probe_elsewhere,
    says_something,
)
from fuzz.explain.evidence.masking import swamped, unmask
from fuzz.explain.evidence.refutation import searched
from fuzz.explain.explanation import Suggestion
from fuzz.explain.stages.conclusion import Conclusion, concluded
from fuzz.explain.stages.standing import LARGER, enough, probed_as, put_to_test
from fuzz.explain.trial.trial import KeepsStateError, OutOfTimeError, Trials
from oracles.dtypes import form
from oracles.ops import OPS

_STEADY = 8
"""If this many consecutive row lengths all fail, a law's other conditions are probed there, where luck does not
matter."""
_SURE = 320
"""Two orders of a sum hardly ever round alike over this many elements: if such a row fails, it is probed around."""
_CONFIRMED = 6
"""The most failing probes that are tried again in new processes: if a kernel keeps state, its rule would be about what
it was called with before."""
_CONFIRMED_SLOWLY = 2
"""The same in an emulator, and on a GPU, where processes start slowly. Measured on an H100: six took 6.9 of 40 s."""
_SEVERAL = 3
"""The failures without elements that a rule about them needs: one in a hundred cases of a search has none."""
_HARDLY_ANY = 0.9
"""If more than this share of row lengths fail, no further ones are probed: a probe that fails takes ten times as long
as one that passes, since the oracle confirms each failure. Chosen, not measured."""
_CLEARLY = 100.0
"""A failure with at least this err/budget is not hidden by a row a few times as long."""
_PLAINLY = (GIVEN, "ones", "integers", "normal", "tiny")
"""Values with which a failure may be clearer."""


def explain(trials: Trials, case: Case, siblings: Sequence[Target] = ()) -> Conclusion:
    """Return what probes around a shrunk case say, on its target and on the kernel's other ones, until the trials' time
    is over. Raises KeepsStateError if it fails because of earlier probes."""
    law = trials.family.law.name if trials.family.law is not None else ""
    evidence = evidence_of(trials, case, siblings)
    return replace(concluded(evidence, law), suggestion=declaring(trials.target.kernel.capability, evidence))


def evidence_of(trials: Trials, case: Case, siblings: Sequence[Target] = ()) -> Evidence:
    """Return what is probed around a shrunk case. Raises KeepsStateError as `explain` does."""
    evidence = Evidence()
    # Around the failure a boundary case fails as well.
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
            raise KeepsStateError  # it failed after other calls, and does not any more
        if not evidence.bad:
            return evidence  # everything that fails around it is another finding's rule
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
    """Return the evidence of a search on whether cases with elements fail too, around a case without any; if few do,
    any rule would be chance."""
    evidence = alone.beside = Evidence()
    drawn = islice(searched(trials.target, int(case.digest[:15], 16)), enough(trials))
    probe(trials, [case, *(each for each in drawn if trials.target.kernel.capability.accepts(each))], evidence)
    if sum(evidence.failed) < _SEVERAL:
        return alone
    evidence.whole = evidence.tested = True
    evidence.stands, evidence.true_of = evidence.induced().learned.exact, len(evidence.failed) - 1
    return evidence


def _draw_on(trials: Trials, key: int, evidence: Evidence) -> None:
    """Probe what a search draws, to find the bounds of a failure that no rule fits."""
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
    failing = failing if law else _failing_lengths(evidence, base)
    probe_all(trials, probes.mixed(base, target, failing, key, few=law), evidence)


def _clearest(trials: Trials, case: Case, base: Draw) -> Draw:
    """Return the base, or its clearest failing variant with other values, or with another parameter that scales with
    them, if it fails by little itself: else a slightly longer row would hide the failure, and the rule would be about
    what hides it. If tensors share memory, or places say which element is meant, drawn values are preferred: many plain
    ones are the same when overwritten, or when taken from elsewhere."""
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
    """Return the base in the finest dtype in which the law is broken with some values: in a coarse one two orders of a
    sum round alike most of the time, and the probes would be about luck."""
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
"""An extent is taken for the cause if at least this many different values of it fail, and as many pass."""


def declaring(capability: Capability, evidence: Evidence) -> Suggestion | None:
    """Return what to declare, if everything that fails was refused for a reason that capabilities have a word for, and
    something else passes: that nothing is empty, what an extent is a multiple of, or its maximum, if the kernel says so
    itself."""
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
    """Return whether it is the kernel that refuses: what it calls may raise where it is wrong."""
    return judgement.verdict is Verdict.REJECTED or judgement.reason.startswith("AssertionError")


def _most(dim: str, failing: Sequence[Case], passing: Sequence[Case]) -> int:
    """Return the extent of the dimension up to which it passes, and beyond which it fails; 0 without one."""
    fails, passes = ({Frame(case).sizes.get(dim, 0) for case in cases} for cases in (failing, passing))
    is_told = len(fails) >= _DIFFERENT and max(passes) + 1 == min(fails)
    return max(passes) if is_told else 0


def _step(dim: str, failing: Sequence[Case], passing: Sequence[Case]) -> int:
    """Return what the extent of the dimension is a multiple of where it passes, and nowhere where it fails; 0 without
    one."""
    fails, passes = ({Frame(case).sizes.get(dim, 0) for case in cases} for cases in (failing, passing))
    step = math.gcd(*passes)
    many = len(fails) >= _DIFFERENT and len(passes - {0}) >= _DIFFERENT
    return step if many and step > 1 and all(extent % step for extent in fails) else 0


def _is_empty(case: Case) -> bool:
    return any(tensor.layout.size == 0 for tensor in case.tensors.values())
