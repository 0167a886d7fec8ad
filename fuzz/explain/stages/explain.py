"""Explaining: probing around a shrunk failure, and learning the rule of failing that agrees with the probes."""

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
