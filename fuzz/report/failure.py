"""The text of a judgement, in the order in which a kernel's author needs it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.adapters.target import Target, TargetId
from fuzz.base.case import Case, Layout, Output, Tensor
from fuzz.base.dtypes import decimal, from_bits
from fuzz.base.memory import shift
from fuzz.base.outcome import Outcome
from fuzz.findings.bucket import Bucket
from fuzz.judge.judge import Judgement
from fuzz.judge.trouble import error_words
from fuzz.judge.values import problem_of
from fuzz.laws.law import LawCheck
from oracles.breakdown import Breakdown
from oracles.declared import AXIS
from oracles.dtypes import ITEMSIZE
from oracles.ops import OPS
from oracles.truth import GaveUp, OutputCheck, Truth

_SHOWN = 16
"""The elements of a tensor of up to so many are printed: in short decimals they take about a line."""
_LISTED = 4
"""Targets of one kernel that are listed before 'and N more': about what a line of a terminal holds."""


@dataclass(frozen=True)
class Provenance:
    """The run that found something, as its user can repeat it."""

    seed: int
    command: str
    """What its user typed, such as 'kernelfuzz run --seed 7 --pack mine'."""
    pack_option: tuple[str, ...] = ()
    """It is ('--pack', FOLDER) where the kernels are not the built-in ones."""
    numbered: bool = False
    """It is true where a case of the run can be named by seed, op, shard and number."""


def judgement_text(case: Case, judgement: Judgement, outcome: Outcome, target: Target) -> str:
    """Verdict, kernel, target, tensors, and the worst element with every term of its budget."""
    return "\n".join([*_head(case, judgement, target), *_values(case, judgement, outcome, target)])


def failure_text(
    case: Case, judgement: Judgement, target: Target, others: Mapping[str, str], path: Path | None, origin: Provenance
) -> str:
    """The judgement, who else fails on the case, the command that reproduces it, and the case file."""
    lines = [*_head(case, judgement, target)]
    if judgement.outcome is not None:
        lines += _values(case, judgement, judgement.outcome, target)
    lines += _other_targets(target.id, judgement.verdict.value, others)
    if path is not None:
        where = shlex.join([str(path), *origin.pack_option, "--target", target.id])
        lines.append(f"  reproduce     kernelfuzz repro {where}")
        lines.append(f"  case file     {path}  (digest {case.digest[:12]})")
    lines.append(f"  found by      {origin.command}")
    return "\n".join(lines)


def bucket_text(bucket: Bucket, target: Target, origin: Provenance) -> str:
    """The failure text of a bucket, with how often and where it was seen."""
    text = failure_text(bucket.case, bucket.judgement, target, bucket.others, bucket.path, origin)
    place = bucket.case.origin.place
    if origin.numbered and place:
        place = f"{origin.seed}:{bucket.case.op}:{place}"
        text += (
            f"\n  as found      kernelfuzz {shlex.join(['repro', place, *origin.pack_option, '--target', target.id])}"
        )
    seen = f"  seen          {bucket.count:,} times on {len(bucket.targets)} targets"
    told = explanation_lines(bucket.found.lines())
    return "\n".join([text, *told, seen, *([f"  note          {bucket.note}"] if bucket.note else [])])


def explanation_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines of an explanation, 'label: text' as `fuzz.triage.explain` writes them, in the columns of a failure.

    The nightly page finds lines by these labels again, also in texts of earlier nights: see `fuzz.report.page`.
    """
    for label, _, rest in (line.partition(": ") for line in lines):
        yield f"  {label + ' ':<13} {rest}"


def _head(case: Case, judgement: Judgement, target: Target) -> Iterator[str]:
    yield f"{judgement.verdict.value}  {target.kernel.name}  {target.id}"
    if judgement.reason:
        yield f"  what          {judgement.reason}"
    has_axis = case.op not in OPS or OPS[case.op].turns
    params = (f"{name} {_param(value)}" for name, value in case.params.items() if has_axis or name != AXIS)
    yield f"  op            {', '.join((case.op, *params))}"
    for name, tensor in case.inputs.items():
        shared = f", one buffer with {tensor.alias}" if tensor.alias else ""
        yield f"  {name:<13} {_tensor(tensor.dtype, tensor.layout)}{shared}"
        yield from _shown_values(tensor)
    for name, output in case.outputs.items():
        yield f"  {name:<13} {_output(case, output)}"
    if judgement.broken_law is not None:
        yield from _twin_lines(case, judgement.broken_law)
    structured = "structured: worst-case budget" if case.structured else "random rounding: statistical budget"
    yield f"  values        recipe {case.origin.recipe} ({structured})"


def _shown_values(tensor: Tensor) -> Iterator[str]:
    """A line with all elements in decimal, each bit of them, of a tensor small enough to be read off the screen."""
    if 0 < tensor.layout.size <= _SHOWN:
        with np.errstate(invalid="ignore"):  # of a signalling NaN
            values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float64).tolist()
        yield f"  {'':<13} {_nested(values, tensor.dtype)}"


def _nested(values: list[Any] | float, dtype: str) -> str:
    """As Python writes lists of lists."""
    if isinstance(values, list):
        return f"[{', '.join(_nested(each, dtype) for each in values)}]"
    return decimal(values, dtype)


def _twin_lines(case: Case, check: LawCheck) -> Iterator[str]:
    """What the law's twin changes."""
    twin = check.twin(case)
    for name, value in twin.params.items():
        if value != case.params.get(name):
            yield f"  twin's {name:<6} {_param(value)}"
    for name, tensor in twin.inputs.items():
        before = case.inputs[name]
        if tensor != before:
            values = "the same values" if tensor.bits == before.bits else "other values"
            yield f"  twin's {name:<6} {_tensor(tensor.dtype, tensor.layout)}, {values}"
            yield from _shown_values(tensor) if tensor.bits != before.bits else ()
    for name, output in twin.outputs.items():
        if output != case.outputs[name]:
            yield f"  twin's {name:<6} {_output(twin, output)}"


def _output(case: Case, output: Output) -> str:
    """Its memory, or the input whose it is: exactly, or from so many elements before or after its first one."""
    own = _tensor(output.dtype, output.layout)
    if output.alias is None:
        return own
    source = case.inputs[output.alias].layout
    if output.layout.relation(source) == "same":
        return f"in place of {output.alias}"
    distance = shift(source, output.layout)
    return f"{own}, {abs(distance)} elements {'after' if distance > 0 else 'before'} {output.alias}, in its memory"


def _tensor(dtype: str, layout: Layout) -> str:
    place = "flush" if layout.offset == 0 else f"{layout.offset} elements"
    side = "before a guard page" if layout.guard == "after" else "after a guard page"
    shape, strides = list(layout.shape), list(layout.strides)
    alignment = f"{layout.alignment(ITEMSIZE[dtype])} mod 64 bytes"
    return f"T({shape}, {dtype}, strides {strides}), base at {alignment}, {place} {side}"


def _values(case: Case, judgement: Judgement, outcome: Outcome, target: Target) -> Iterator[str]:
    check = judgement.worst
    if check is None or check.worst_index is None:
        return
    try:
        breakdown = explained(case, check, outcome, target)
    except GaveUp as error:
        yield f"  oracle        gave up: {error}"
        return
    except Exception as error:  # the finding is shown all the same
        yield f"  budget        internal error: {error_words(error)}; please report it"
        return
    if check.failing:
        size = case.outputs[check.output].layout.size
        against = (
            "contradicts the declared contract: outside the worst-case budget too"
            if check.contradicts
            else "an accuracy failure: outside the statistical budget, inside the worst case"
        )
        yield f"  failing       {check.failing} of {size} elements of {check.output}; {against}"
    small = [name for name, tensor in case.inputs.items() if tensor.layout.size <= _SHOWN]  # their values stand there
    given = tuple(each for each in breakdown.given if each[0] not in small)
    yield from breakdown_lines(replace(breakdown, given=given))


def explained(case: Case, check: OutputCheck, outcome: Outcome, target: Target) -> Breakdown:
    """The budget of the worst element, which the check names. Raises GaveUp."""
    output, index = case.outputs[check.output], check.worst_index
    assert index is not None
    got = from_bits(outcome.outputs[check.output], output.dtype, output.layout.shape)
    return Truth(problem_of(case)).explain(target.contract, check.output, index, float(got[index]))


def element(output: str, index: Sequence[int]) -> str:
    """What an element is called, such as `y[0, 3]`; that of an output without dimensions like the output."""
    return f"{output}[{', '.join(map(str, index))}]" if index else output


def breakdown_lines(breakdown: Breakdown) -> Iterator[str]:
    """The worst element: got and expected in decimal and hex, ulp, err/budget and its terms."""
    yield f"  worst         {element(breakdown.output, breakdown.index)}"
    yield f"  got           {breakdown.got}"
    yield f"  expected      {breakdown.expected}"
    yield f"  error         {breakdown.ulp:+.4g} ulp, err/budget {breakdown.ratio:.4g}"
    yield from allowance_lines(breakdown)


def allowance_lines(breakdown: Breakdown) -> Iterator[str]:
    """The exact value, what is allowed, each term of the budget, and what the element was calculated from."""
    yield f"  exact         {breakdown.exact}"
    yield f"  allowed       {breakdown.low} to {breakdown.high}"
    for remark in breakdown.remarks:
        yield f"  note          {remark}"
    for number, term in enumerate(breakdown.terms):
        yield f"  {'budget' if number == 0 else '':<13} {term.name:<15} {term.value:.3e}   {term.formula}"
    for number, (name, text) in enumerate(breakdown.facts):
        about = "row" if breakdown.facts[0][0].startswith("row") else "extents"
        yield f"  {about if number == 0 else '':<13} {name:<24} {text}"
    for number, (name, text) in enumerate(breakdown.given):
        yield f"  {'made of' if number == 0 else '':<13} {name:<15} {text}"


def _other_targets(target: str, verdict: str, others: Mapping[str, str]) -> Iterator[str]:
    """Who else fails on the case, who does not: what a kernel's author asks next."""
    same = [name for name, other in others.items() if other == verdict]
    passing = [name for name, other in others.items() if other == "PASS"]
    different = [name for name, other in others.items() if other not in (verdict, "PASS", "NOT_RUN")]
    everyone = Counter(TargetId.parse(name).implementation for name in (target, *others))
    for label, names in (("also fails", same), ("otherwise", different), ("passes on", passing)):
        if names:
            yield f"  {label:<13} {_listed(names, others if label == 'otherwise' else {}, everyone)}"


def _listed(names: Sequence[str], verdicts: Mapping[str, str], everyone: Mapping[str, int]) -> str:
    """Target names, with all targets of one kernel and verdict as one: 'c-sve on all 12 targets'."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        groups.setdefault((TargetId.parse(name).implementation, verdicts.get(name, "")), []).append(name)
    parts = []
    for (kernel, verdict), members in groups.items():
        whole = len(members) == everyone[kernel] and len(members) > 1
        where = f"{kernel} on all {len(members)} targets" if whole else _shortened(members)
        parts.append(f"{where} ({verdict})" if verdict else where)
    return "; ".join(parts)


def _shortened(members: Sequence[str]) -> str:
    """'c-sve@qemu:vl=128,gcc-O0 c-sve@qemu:vl=256,gcc-O0 and 3 more'."""
    more = f" and {len(members) - _LISTED} more" if len(members) > _LISTED else ""
    return " ".join(members[:_LISTED]) + more


def _param(value: float | int) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g} ({value.hex()})"
