"""The full text of a failure: everything in its explanation."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from fuzz.core.adapters.target import TargetId
from fuzz.core.base.draw import GIVEN
from fuzz.core.base.text import counted
from fuzz.explain.explanation import NO_SHRINK, Call, Explanation, Memory, Number, WorstElement
from fuzz.report import words
from fuzz.report.brief import Commands
from fuzz.report.wrapping import wrapped, wrapped_text

_LABELLED = 16
"""The columns that the label of a fact takes."""
HANG = _LABELLED + 2
"""The indent of the further lines of a fact."""
_LISTED = 4
"""The number of targets of one kind that are listed, about as many as fit into a line."""


def full_text(told: Explanation, commands: Commands, seen: str = "", width: int = sys.maxsize) -> str:
    """Return everything that is known: the verdict, the tensors, the worst element with all terms of its budget, the
    other targets, the explanation, and the commands, which are not broken into lines."""
    facts = wrapped_text("\n".join(_lines(told)), width, HANG)
    return "\n".join([facts, *_command_lines(commands, told.case.digest, seen, width)])


def verdict_line(told: Explanation) -> str:
    """Return the verdict with the kernel and the target, the first line of the full text."""
    return f"{told.verdict.value}  {told.kernel}  {told.target}"


def _lines(told: Explanation) -> Iterator[str]:
    yield verdict_line(told)
    if told.reason:
        yield _line("what", told.reason)
    yield from _case_lines(told)
    if told.worst is not None:
        yield from _worst_lines(told.worst, [name for name, memory in told.case.inputs.items() if memory.values])
    yield from _other_targets(told.target, told.verdict.value, told.verdicts)
    yield from explanation_lines(told)


def _line(label: str, text: str) -> str:
    return f"  {label:<{_LABELLED - 3}} {text}"


def explanation_lines(told: Explanation) -> Iterator[str]:
    """Yield labelled lines with the results of shrinking and probing: a fitting contract or declaration, the effects of
    changes, the cause, the rule, and the places of bad elements."""
    fits = [_line("contract", words.contract_words(told.contract))] if told.contract is not None else []
    yield from fits if told.contract is not None and told.contract.telling else ()
    if told.suggestion is not None:
        yield _line("declare", words.suggestion_words(told.suggestion))
    if told.case.original:
        changed = ", ".join(f"{name} {old} -> {new}" for name, old, new in told.case.changes)
        yield _line("shrunk", f"{changed or 'plainer values or layout'} (was {told.case.original[:12]})")
    for number, line in enumerate(words.counterfactual_lines(told.counterfactuals)):
        yield _line("" if number else "nearby", line)
    if told.attribution is not None:
        yield _line("cause", f"{told.attribution.cause}: {told.attribution.evidence}")
    if told.mechanism is not None:
        yield _line("wrong is", f"{words.mechanism_words(told.mechanism)}: {words.mechanism_evidence(told.mechanism)}")
    if told.unset is not None:
        yield _line("nobody set", f"it reads {words.unset_words(told.unset)}: {words.unset_evidence(told.unset)}")
    if told.unsteady is not None:
        yield _line("changes", str(told.unsteady))
    for label, line in words.rule_lines(told):
        yield _line(label, line)
    if told.places is not None:
        yield _line("bad elements", words.places_words(told.places))
    yield from fits if told.contract is not None and not told.contract.telling else ()
    if told.beside:
        counted = " and ".join(f"{count} {verdict}" for verdict, count in sorted(told.beside.items()))
        yield _line("also here", f"{counted}; no rule says whether that is the same bug")
    if told.explained == "in part" and told.option != NO_SHRINK:
        more = f"; {told.option} gives more" if told.option else ""
        yield _line("not finished", f"the time for explaining ended{more}")
    if told.note and (told.rule is not None or told.explained != "in part"):  # else the rule's line has it
        yield _line("note", told.note)


def _command_lines(commands: Commands, digest: str, seen: str, width: int) -> Iterator[str]:
    kept = f"{commands.case_file}  (digest {digest[:12]})" if commands.case_file else ""
    yield from (
        _line(*each) for each in (("reproduce", commands.reproduce), ("as found", commands.as_found)) if each[1]
    )
    yield from wrapped(_line("case file", kept), width, HANG) if kept else ()
    yield from [_line("found by", commands.found_by)] if commands.found_by else ()
    yield from wrapped(_line("seen", seen), width, HANG) if seen else ()


def _case_lines(told: Explanation) -> Iterator[str]:
    case = told.case
    params = (f"{name} {_number(value)}" for name, value in case.parameters.items())
    yield _line("op", ", ".join((told.op, *params)))
    for name, memory in case.inputs.items():
        shared = f", one buffer with {memory.shares}" if memory.shares else ""
        yield _line(name, _tensor(memory) + shared)
        yield from _shown_values(memory)
    for name, memory in case.outputs.items():
        yield _line(name, _output(memory))
    if case.twin is not None:
        yield from _twin_lines(case, case.twin)
    structured = "structured: worst-case budget" if case.structured else "random rounding: statistical budget"
    made = "those of the case file" if case.recipe == GIVEN else f"recipe {case.recipe}"
    yield _line("values", f"{made} ({structured})")


def _number(value: Number) -> str:
    return f"{value.decimal} ({value.bits})" if value.bits else value.decimal


def _shown_values(memory: Memory) -> Iterator[str]:
    if memory.values:
        yield _line("", words.nested(memory))


def _twin_lines(case: Call, twin: Call) -> Iterator[str]:
    """Yield lines about what differs in the law's twin."""
    for name, value in twin.parameters.items():
        if value != case.parameters.get(name):
            yield _line(f"twin's {name}", _number(value))
    for name, memory in twin.inputs.items():
        before = case.inputs[name]
        if memory != before:
            same = memory.content == before.content
            yield _line(f"twin's {name}", f"{_tensor(memory)}, {'the same values' if same else 'other values'}")
            yield from () if same else _shown_values(memory)
    for name, memory in twin.outputs.items():
        if memory != case.outputs[name]:
            yield _line(f"twin's {name}", _output(memory))


def _output(memory: Memory) -> str:
    """Return a description of an output's memory: its own, or that of an input, with the number of elements by which it
    begins before or after the input."""
    if not memory.shares:
        return _tensor(memory)
    if memory.apart is None:
        return f"in place of {memory.shares}"
    how = f"{counted(abs(memory.apart), 'element')} {'after' if memory.apart > 0 else 'before'} {memory.shares}"
    return f"{_tensor(memory)}, {how}, in its memory"


def _tensor(memory: Memory) -> str:
    place = "flush" if memory.offset == 0 else counted(memory.offset, "element")
    side = "before a guard page" if memory.guard == "after" else "after a guard page"
    where = f"base at {memory.alignment} mod 64 bytes, {place} {side}"
    return f"T({list(memory.shape)}, {memory.dtype}, strides {list(memory.strides)}), {where}"


def _worst_lines(worst: WorstElement, shown: Collection[str]) -> Iterator[str]:
    """Yield lines about the worst element: the returned and the expected value, ulp, err/budget and its terms, and the
    operands, except the `shown` inputs, whose values were listed before."""
    if worst.failing:
        against = (
            "more than rounding in the formula's steps can explain: outside the worst-case budget too"
            if worst.contradicts
            else "an accuracy failure: outside the statistical budget, inside the worst case"
        )
        yield _line(
            "failing", f"{worst.failing:,} of {counted(worst.of, 'element')} of {worst.output} in this case; {against}"
        )
    yield _line("worst", words.element(worst.output, worst.index))
    yield _line("got", _number(worst.got))
    yield _line("expected", _number(worst.expected))
    yield _line("error", f"{_signed(worst.ulp)} ulp, err/budget {_ratio(worst.ratio)}")
    yield from allowance_lines(replace(worst, given=tuple(each for each in worst.given if each[0] not in shown)))


def _signed(ulp: float | None) -> str:
    return "+inf" if ulp is None else f"{ulp:+.4g}"


def _ratio(ratio: float | None) -> str:
    return "inf" if ratio is None else f"{ratio:.4g}"


def allowance_lines(worst: WorstElement) -> Iterator[str]:
    """Yield lines with the exact value, the allowed ones, each term of the budget, and the operands of the element."""
    yield _line("exact", worst.exact)
    ends = [_number(each) for each in dict.fromkeys((worst.low, worst.high))]
    yield _line("allowed", " to ".join(ends))
    for remark in worst.remarks:
        yield _line("note", remark)
    for number, term in enumerate(worst.terms):
        value = "inf" if term.value is None else f"{term.value:.3e}"
        yield _line("" if number else "budget", f"{term.name:<15} {value}   {term.formula}")
    for number, (name, text) in enumerate(worst.facts):
        about = "row" if worst.facts[0][0].startswith("row") else "extents"
        yield _line("" if number else about, f"{name:<24} {text}")
    for number, (name, text) in enumerate(worst.given):
        yield _line("" if number else "made of", f"{name:<15} {text}")


def _other_targets(target: str, verdict: str, others: Mapping[str, str]) -> Iterator[str]:
    """Yield lines about the other targets that fail on the case, or pass: an author asks for these next."""
    same = [name for name, other in others.items() if other == verdict]
    passing = [name for name, other in others.items() if other == "PASS"]
    different = [name for name, other in others.items() if other not in (verdict, "PASS", "NOT_RUN")]
    everyone = Counter(TargetId.parse(name).implementation for name in (target, *others))
    for label, names in (("also fails", same), ("otherwise", different), ("passes on", passing)):
        if names:
            yield _line(label, _targets_words(names, others if label == "otherwise" else {}, everyone))


def _targets_words(names: Sequence[str], verdicts: Mapping[str, str], everyone: Mapping[str, int]) -> str:
    """Return the names of targets; all targets of a kernel with one verdict become 'c-sve on all 12 targets'."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        groups.setdefault((TargetId.parse(name).implementation, verdicts.get(name, "")), []).append(name)
    parts = []
    for (kernel, verdict), members in groups.items():
        whole = len(members) == everyone[kernel] and len(members) > 1
        more = f" and {len(members) - _LISTED} more" if len(members) > _LISTED else ""
        where = f"{kernel} on all {len(members)} targets" if whole else " ".join(members[:_LISTED]) + more
        parts.append(f"{where} ({verdict})" if verdict else where)
    return "; ".join(parts)
