"""Masking: values that only hide a failure are told from values that cause it, by trying ordinary ones in their place.

A huge number swamps what was left out, a NaN hides any difference. Where exactly depends on everything: a rule about
the values of probes that happen to pass would be an accident of these probes. So of each probe that passes against the
rule it is asked whether it fails with ordinary values and parameters. What these do not show is caused by values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from fuzz.base.case import Case, CaseError
from fuzz.triage import variations as vary
from fuzz.triage.evidence import Evidence, Masking, telling
from fuzz.triage.rule import Learned
from fuzz.triage.trial import Trials
from fuzz.triage.values import is_of_values

_SHOWN = 12
"""Of so many probes that fail ordinary values are tried first."""
_PURE = 0.9
"""Where at least this share of them fails with these too, values do not cause the failure."""
_MOST_HIDDEN = 0.3
"""Values that hide more than this share of the failures are rather its cause."""
_ROUNDS, _ASKED = 3, 40
"""So many times the rule is learned anew from what was found; so many probes are asked about each time."""


def unmask(trials: Trials, evidence: Evidence) -> None:
    """Find out which of the probes that pass against the rule are hidden by their values."""
    known = evidence.masking
    if trials.family.law is not None or known.cause:
        return
    if not known.only_hide:
        if not _is_due(evidence.induced().learned):
            return
        evidence.masking = Masking(True) if _is_shown(trials, evidence) else Masking(cause=True)
    for _ in range(_ROUNDS if evidence.masking.only_hide else 0):
        asked = _against(evidence)[:_ASKED]
        if not asked:
            break
        failing = failing_ordinarily(trials, [evidence.cases[place] for place in asked])
        known, hidden = evidence.masking, {place for place, fails in zip(asked, failing, strict=True) if fails}
        evidence.masking = replace(known, hidden=known.hidden | hidden, shown=known.shown | ({*asked} - hidden))
    hidden_by = len(evidence.masking.hidden)
    held = sum(map(evidence.induced().learned.holds, evidence.tried(evidence.counted())[0]))
    if hidden_by > _MOST_HIDDEN * (held + hidden_by):
        evidence.masking = Masking(cause=True)


def _is_due(learned: Learned) -> bool:
    """Whether what is stated is about values, or does not fit."""
    rules = (learned.rule, *learned.others)
    return not learned.exact or any(is_of_values(atom.trait) for rule in rules for atom in rule.atoms)


def _is_shown(trials: Trials, evidence: Evidence) -> bool:
    """Whether what fails fails with ordinary values too."""
    cases = [case for case, _ in evidence.bad]
    failing = failing_ordinarily(trials, cases[:: -(-len(cases) // _SHOWN)])
    found = [fails for fails in failing if fails is not None]
    return bool(found) and sum(found) >= _PURE * len(found)


def _against(evidence: Evidence) -> list[int]:
    """The places of probes that pass against the rule, and of which nothing is known yet."""
    learned, places = evidence.induced().learned, evidence.counted()
    tried = zip(places, *evidence.tried(places), strict=True)
    known = evidence.masking.shown
    return [place for place, each, bad in tried if not bad and place not in known and learned.holds(each)]


def failing_ordinarily(trials: Trials, cases: Sequence[Case]) -> list[bool | None]:
    """Of each case whether it fails with ordinary values; None where it cannot have them."""
    made = [_ordinary(case, seed) for seed, case in enumerate(cases)]
    able = [case for case in made if case is not None and trials.target.kernel.capability.accepts(case)]
    said = {case.digest: trials.family.holds(judgement) for case, judgement in telling(able, trials)}
    return [said.get(case.digest) if case is not None else None for case in made]


def _ordinary(case: Case, seed: int) -> Case | None:
    with contextlib.suppress(CaseError):
        return vary.made(vary.ordinary(vary.base_of(case), seed))
    return None
