"""The explanation of a finding, assembled from the facts about it."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fuzz.core.adapters.target import Target
from fuzz.core.base import __version__
from fuzz.core.base.case import Case, Output, Tensor
from fuzz.core.base.dtypes import decimal, from_bits, numbers, quantise, shortest
from fuzz.core.base.feature import Kind
from fuzz.core.base.memory import shift
from fuzz.core.base.outcome import Outcome
from fuzz.core.base.probe import without_probe
from fuzz.core.judge.judge import Judgement
from fuzz.core.judge.trouble import error_words
from fuzz.core.judge.values import truth_of
from fuzz.explain.explanation import (
    Alternative,
    BudgetTerm,
    Call,
    Counterfactual,
    Explanation,
    Memory,
    Number,
    SharedCondition,
    SmallestCase,
    StatedRule,
    WorstElement,
)
from fuzz.explain.finding import Diagnosis, Finding, changes
from fuzz.explain.rule.bounds import HELD
from fuzz.explain.rule.rule import Rule
from fuzz.explain.stages.conclusion import Conclusion
from oracles import breakdown
from oracles.dtypes import FORMATS, ITEMSIZE
from oracles.enclosure import Mask
from oracles.formula.exact.deadline import LateError, deadline
from oracles.operand import AXIS
from oracles.ops import OPS
from oracles.truth import GaveUp, OutputCheck

_SHOWN = 16
"""The most elements of a tensor whose values are kept: as short decimals they fill about a line."""
_CHANGED_BY: Mapping[Kind, str] = {
    "address": "offset", "address of rows": "offset", "layout": "layout of {}", "strides": "layout of {}",
    "stride of 0": "layout of {}", "step": "layout of {}", "furthest": "layout of {}", "parameter": "{}",
    "beside": "{}",
}  # fmt: skip
"""The counterfactual that shows whether a condition matters, by the kind of the condition."""
_LIKE_ROUNDING, _GROSS = 1e-3, 0.01
"""The relative errors below which a failure may be rounding, and above which it may not. Chosen, not measured."""
_EXACTLY_S = 10.0
"""The seconds for the exact value of one element: in a network it may take minutes."""
_RUNS = 64
"""The most runs of failing elements that are kept; a report draws a picture of them."""
_MOST_OR = 1
"""The most 'or's in a rule that people can read."""


def explanation_of(finding: Finding, target: Target | None, note: str = "") -> Explanation:
    """Return the explanation of a finding on a target. If nothing new was found out, return that of an earlier session.
    Without a target the error budget is not taken apart."""
    if finding.told is not None and finding.diagnosis is None:
        return replace(finding.told, verdicts=_others(finding), note=note)
    case, judgement = finding.case, finding.judgement
    known = Explanation(
        kernel=target.kernel.name if target is not None else "",
        op=case.op,
        source=target.kernel.source.name if target is not None else "",
        verdict=judgement.verdict,
        target=judgement.target,
        case=_smallest(case, judgement, finding.diagnosis),
        kernelfuzz=__version__,
        law=judgement.broken_law_name,
        reason=judgement.reason,
        verdicts=_others(finding),
        earlier=finding.earlier,
        note=note,
    )
    try:
        known = replace(known, worst=_worst(case, judgement, target), elsewhere=_elsewhere(finding, target))
    except Exception as error:  # the finding is reported all the same
        trouble = f"internal error: {error_words(error)}; please report it"
        known = replace(known, note=f"{note}; {trouble}" if note else trouble)
    return known if finding.diagnosis is None else _with_diagnosis(known, finding.diagnosis)


def _others(finding: Finding) -> dict[str, str]:
    return {name: verdict for name, verdict in finding.verdicts.items() if name != finding.target}


def _with_diagnosis(known: Explanation, diagnosis: Diagnosis) -> Explanation:
    conclusion = diagnosis.conclusion
    return replace(
        known,
        beside=dict(diagnosis.beside),
        contract=diagnosis.fitting.told if diagnosis.fitting is not None else None,
        suggestion=conclusion.suggestion,
        counterfactuals=diagnosis.counterfactuals,
        attribution=diagnosis.attribution,
        mechanism=diagnosis.mechanism,
        unset=diagnosis.unset,
        unsteady=diagnosis.unsteady,
        rule=(rule := stated(conclusion, diagnosis.counterfactuals)),
        shared=shared(conclusion) if rule is None else None,
        places=conclusion.places,
        note=known.note or ("" if rule is not None or diagnosis.whole else so_far(conclusion)),
        explained="whole" if diagnosis.whole else "in part",
        option=diagnosis.option,
    )


def stated(conclusion: Conclusion, changes: Sequence[Counterfactual] | None = None) -> StatedRule | None:
    """Return the rule, if it stood its test and people can read it. A rule about values that also names memory or
    parameters is returned only if one of the counterfactuals confirms these conditions."""
    learned = conclusion.learned
    if learned is None or not conclusion.certain:
        return None
    rules = (learned.rule, *learned.others)
    if not learned.rule.atoms and conclusion.hidden and conclusion.hides is None:
        return None  # "always" would be false, and nobody knows for which values it passes
    if changes is not None and not all(_is_shown(rule, changes) for rule in rules):
        return None
    either = len(rules) - 1 + sum(a.size - 1 for rule in rules for a in rule.atoms if a.relation == "within")
    if either > _MOST_OR:
        return None
    alternatives = tuple(_alternative(rule, core) for rule, core in zip(rules, conclusion.cores, strict=True))
    return StatedRule(
        alternatives,
        learned.probes,
        *conclusion.tested,
        conclusion.true_of,
        conclusion.hidden,
        conclusion.hides,
        tuple(conclusion.core.bands) if conclusion.core is not None else (),
        () if learned.rule.atoms else tuple(what for what in conclusion.could_vary if what not in conclusion.varied),
        conclusion.met,
        conclusion.held,
    )


def so_far(conclusion: Conclusion) -> str:
    """Return a note about a rule that fits all tried cases, or nearly all, if there was no time to test it; else ''."""
    learned, cores = conclusion.learned, conclusion.cores
    if learned is None or not learned.sound or not all(core.atoms for core in cores):
        return ""
    if any(each.passing < HELD for each in conclusion.held):
        return ""
    said = "; or ".join(str(core.alone) for core in cores)
    fitting = f"all {learned.probes:,}" if learned.exact else f"{learned.agreeing:,} of {learned.probes:,}"
    return f"so far {said} fits {fitting} cases that were tried, but is untested on others"


def _is_shown(rule: Rule, changes: Sequence[Counterfactual]) -> bool:
    """Return whether each condition on memory or on a parameter is confirmed by a single change that makes the case
    pass. Only rules about values need this: in them such a condition is more often than not learned by chance."""
    if not any(atom.trait.topic.about == "values" for atom in rule.atoms):
        return True
    passing = {each.subject for each in changes if each.passing}
    asked = (_CHANGED_BY.get(atom.trait.kind, "").format(atom.trait.subject) for atom in rule.atoms)
    return all(subject in passing for subject in asked if subject)


def _alternative(rule: Rule, core: Rule) -> Alternative:
    """Return the rule as an alternative: its core as the cause, and the other conditions apart from it."""
    hiding = tuple(atom for atom in rule.atoms if atom not in core.atoms)
    return Alternative(core.alone, Rule(hiding)) if hiding and core.atoms else Alternative(rule.alone)


def shared(conclusion: Conclusion) -> SharedCondition | None:
    """Return the condition that all failures share, if some passing case lacks it."""
    bounds = conclusion.bounds
    if bounds is None or not bounds.necessary.atoms:
        return None
    return SharedCondition(bounds.necessary, bounds.outside)


def _smallest(case: Case, judgement: Judgement, diagnosis: Diagnosis | None) -> SmallestCase:
    called = _call(case)
    law = judgement.broken_law
    was = diagnosis.original if diagnosis is not None else case
    return SmallestCase(
        called.parameters,
        called.inputs,
        called.outputs,
        case.digest,
        case.origin.recipe,
        case.structured,
        _call(law.twin(case)) if law is not None else None,
        was.digest if was.digest != case.digest else "",
        changes(was, case) if was.digest != case.digest else (),
    )


def _call(case: Case) -> Call:
    """Return the arguments of the kernel's call. The axis is left out if the op has only one."""
    has_axis, told = case.op not in OPS or OPS[case.op].any_axis, without_probe(case.params)
    params = {name: _parameter(value) for name, value in told.items() if has_axis or name != AXIS}
    inputs = {name: _input(tensor) for name, tensor in case.inputs.items()}
    return Call(params, inputs, {name: _output(case, output) for name, output in case.outputs.items()})


def _parameter(value: float | int) -> Number:
    return Number(str(value), "") if isinstance(value, int) else Number(shortest(value), value.hex())


def _memory(tensor: Tensor | Output) -> Memory:
    layout = tensor.layout
    alignment = layout.alignment(ITEMSIZE[tensor.dtype])
    return Memory(tensor.dtype, layout.shape, layout.strides, alignment, layout.offset, layout.guard)


def _input(tensor: Tensor) -> Memory:
    values = tuple[str, ...]()
    if 0 < tensor.layout.size <= _SHOWN:
        found = numbers(tensor.bits, tensor.dtype, (-1,)).astype(np.float64).tolist()
        words = from_bits(tensor.bits, tensor.dtype, (-1,)).view(f"<u{ITEMSIZE[tensor.dtype]}").tolist()
        values = tuple(_element(each, word, tensor.dtype) for each, word in zip(found, words, strict=True))
    content = hashlib.sha256(tensor.bits).hexdigest()[:16]
    return replace(_memory(tensor), values=values, content=content, shares=tensor.alias or "")


def _element(value: float, word: int, dtype: str) -> str:
    """Return an element in words. A NaN with other bits than NumPy's `nan` is given with its bits, since they
    decide."""
    usual = not math.isnan(value) or word == int.from_bytes(quantise(np.array([math.nan]), dtype).tobytes(), "little")
    return decimal(value, dtype) if usual else f"nan (0x{word:0{2 * ITEMSIZE[dtype]}x})"


def _output(case: Case, output: Output) -> Memory:
    if output.alias is None:
        return _memory(output)
    source = case.inputs[output.alias].layout
    in_place = output.layout.relation(source) == "same"
    return replace(_memory(output), shares=output.alias, apart=None if in_place else shift(source, output.layout))


def _worst(case: Case, judgement: Judgement, target: Target | None) -> WorstElement | None:
    """Return the worst element and its budget; None if no value was compared, or if the oracle gives up on it."""
    check, outcome = judgement.worst, judgement.outcome
    if check is None or check.worst_index is None or outcome is None or target is None:
        return None
    output = case.outputs[check.output]
    try:
        told = breakdown_of(case, check, outcome, target)
    except GaveUp:
        return None
    found = worst_element(told, check.failing, output.layout.size, contradicts=check.contradicts, dtype=output.dtype)
    return replace(found, bad=_runs(check.mask)) if check.mask is not None else found


def _elsewhere(finding: Finding, target: Target | None) -> float | None:
    """Return the relative error of the clearest failure, if the smallest case looks like a matter of rounding."""
    clearest = finding.diagnosis.clearest if finding.diagnosis is not None else None
    if clearest is None or not isinstance(clearest.of, Case) or target is None:
        return None
    shown = _share_off(finding.case, finding.judgement, target)
    if shown is None or shown >= _LIKE_ROUNDING:
        return None
    share = _share_off(clearest.of, clearest, target)
    return share if share is not None and share >= _GROSS and _is_gross(clearest.of, clearest) else None


def _is_gross(case: Case, judgement: Judgement) -> bool:
    """Whether the error of the worst element is also large compared with its budget: if terms cancel to nearly nothing,
    rounding alone may make an error of twice the value."""
    assert judgement.worst is not None
    dtype = case.outputs[judgement.worst.output].dtype
    return dtype in FORMATS and judgement.ratio * 2.0 ** -FORMATS[dtype].precision >= _LIKE_ROUNDING


def _share_off(case: Case, judgement: Judgement, target: Target) -> float | None:
    """Return the relative error of the worst element; None if there is no finite one."""
    check, outcome = judgement.worst, judgement.outcome
    if check is None or check.worst_index is None or outcome is None:
        return None
    try:
        told = breakdown_of(case, check, outcome, target)
    except GaveUp:
        return None
    got, expected = float(told.got.value), float(told.expected.value)
    return _finite(abs(got - expected) / abs(expected)) if expected and math.isfinite(expected) else None


def _runs(mask: Mask) -> tuple[tuple[int, int], ...]:
    """Return the failing elements as runs of neighbours, at most `_RUNS`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(mask).reshape(-1), [0]])))
    starts, ends = edges[::2], edges[1::2]
    return tuple((int(a), int(b - a)) for a, b in zip(starts[:_RUNS], ends[:_RUNS], strict=True))


def breakdown_of(case: Case, check: OutputCheck, outcome: Outcome, target: Target) -> breakdown.Breakdown:
    """Return the budget of the worst element named by the check. Raises GaveUp."""
    output, index = case.outputs[check.output], check.worst_index
    assert index is not None
    got = from_bits(outcome.outputs[check.output], output.dtype, output.layout.shape)
    truth, asked = truth_of(case, check, outcome), (target.contract, check.output, index, float(got[index]))
    try:
        with deadline(time.process_time() + _EXACTLY_S, lambda: None):
            return truth.explain(*asked)
    except LateError:
        return truth.explain_roughly(*asked)


def worst_element(told: breakdown.Breakdown, failing: int, of: int, *, contradicts: bool, dtype: str) -> WorstElement:
    """Return the breakdown of one element as a record."""
    got, expected, low, high = (
        Number(decimal(each.value, dtype), each.bits) for each in (told.got, told.expected, told.low, told.high)
    )
    return WorstElement(
        told.output,
        told.index,
        got,
        expected,
        low,
        high,
        told.exact,
        _finite(told.ulp),
        _finite(told.ratio),
        failing,
        of,
        contradicts,
        (),
        tuple(BudgetTerm(term.name, _finite(term.value), term.formula) for term in told.terms),
        told.facts,
        told.given,
        told.remarks,
        told.may_be_nan,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
