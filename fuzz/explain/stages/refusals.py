"""What a kernel that refuses some of its cases may be meant to declare."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.explain.evidence.evidence import Evidence
from fuzz.explain.explanation import Suggestion
from oracles.ops import OPS

_DIFFERENT = 2
"""An extent is taken for what decides where so many different ones fail, and as many pass."""


def declaring(capability: Capability, evidence: Evidence) -> Suggestion | None:
    """Return what to declare, where all that fails was refused for a reason that capabilities have a word for, and
    something else passes: that nothing is empty, what an extent is a multiple of, or how long it is at most, of a
    kernel that says so itself."""
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
    """Whether it is the kernel that refuses: what it calls may raise where it is wrong."""
    return judgement.verdict is Verdict.REJECTED or judgement.reason.startswith("AssertionError")


def _most(dim: str, failing: Sequence[Case], passing: Sequence[Case]) -> int:
    """The extent of the dimension up to which it passes, and beyond which it fails; 0 without one."""
    fails, passes = ({Frame(case).sizes.get(dim, 0) for case in cases} for cases in (failing, passing))
    is_told = len(fails) >= _DIFFERENT and max(passes) + 1 == min(fails)
    return max(passes) if is_told else 0


def _step(dim: str, failing: Sequence[Case], passing: Sequence[Case]) -> int:
    """What the extent of the dimension is a multiple of where it passes, and nowhere where it fails; 0 without one."""
    fails, passes = ({Frame(case).sizes.get(dim, 0) for case in cases} for cases in (failing, passing))
    step = math.gcd(*passes)
    many = len(fails) >= _DIFFERENT and len(passes - {0}) >= _DIFFERENT
    return step if many and step > 1 and all(extent % step for extent in fails) else 0


def _is_empty(case: Case) -> bool:
    return any(tensor.layout.size == 0 for tensor in case.tensors.values())
