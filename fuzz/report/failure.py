"""A failure as text, made of its explanation: three lines that say what is wrong, or everything that is known."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fuzz.adapters.target import TargetId
from fuzz.report.words import (
    contract_words,
    counterfactual_lines,
    is_named,
    nearest_words,
    phrase,
    places_words,
    rule_lines,
    suggestion_words,
    tested_words,
    what_is_wrong,
)
from fuzz.triage.explanation import Call, Explanation, Memory, Number, SmallestCase, WorstElement
from oracles.declared import AXIS

WIDTH = 80
"""The columns of the first lines: those of a terminal that nobody has widened."""
_LISTED = 4
"""Targets of one kernel that are listed before 'and N more': about what a line of a terminal holds."""
_MOST_VALUES = 50
"""The most characters of values in the first lines: beside them must stand what came of these."""
OF_CHECKS = Path(".pytest_cache", "d", "kernelfuzz")
"""The case files of `fuzz.check` are here, in the folder in which pytest runs. Findings are looked up here too."""
_DIGEST = 6
"""The characters of a digest by which commands name a finding."""


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


@dataclass(frozen=True)
class Commands:
    """What to type about a failure; '' for what is not possible."""

    repro: str = ""
    show: str = ""
    reproduce: str = ""
    """The same as `repro`, on the target that failed alone."""
    case_file: str = ""
    as_found: str = ""
    found_by: str = ""


def commands_of(told: Explanation, path: Path | None, origin: Provenance, place: str = "") -> Commands:
    """Return the commands about a failure whose case file is at the path, if one could be written; `place` is that of
    its case in the search."""
    if path is None:
        return Commands(found_by=origin.command)
    by_digest = any(path.parent.absolute() == folder.absolute() for folder in (Path("findings"), OF_CHECKS))
    name = told.case.digest[:_DIGEST] if by_digest else str(path)
    words = [name, *origin.pack_option]
    found = ""
    if origin.numbered and place:
        where = [f"{origin.seed}:{told.op}:{place}", *origin.pack_option, "--target", told.target]
        found = f"kernelfuzz repro {shlex.join(where)}"
    repro, show = (f"kernelfuzz {verb} {shlex.join(words)}" for verb in ("repro", "show"))
    alone = f"kernelfuzz repro {shlex.join([str(path), *origin.pack_option, '--target', told.target])}"
    return Commands(repro, show, alone, str(path), found, origin.command)


def headline(told: Explanation) -> str:
    """Return one line: which kernel, and what is wrong with it."""
    return f"FAIL  {told.kernel}  {what_is_wrong(told)}"


def brief(told: Explanation, commands: Commands, width: int = WIDTH) -> str:
    """Return the first lines of every report: what is wrong and where; the smallest case, what came of it and what must
    come; what becomes of it with one thing changed, and how well the rule was tested; what to type next."""
    lines = [_beside(headline(told), _where(told), width)]
    lines += _folded(f"{_case_words(told.case, width)}  ->  ", _outcome_words(told), width)
    lines += _folded("", "; ".join(_evidence_words(told, width)), width)
    if commands.repro:
        lines.append(_pair(f"next: {commands.repro}", f"everything: {commands.show}", width))
    return "\n".join(lines)


def _beside(left: str, right: str, width: int) -> str:
    """Return both in one line, the second at its end, where there is room for it."""
    room = width - len(left) - len(right)
    return f"{left}{' ' * room}{right}" if room >= 2 and right else left


def _pair(left: str, right: str, width: int) -> str:
    one = f"  {left:<40} {right}"
    return one if len(one) <= width and len(left) <= 40 else f"  {left}\n  {right}"


def _folded(start: str, rest: str, width: int) -> list[str]:
    """Return both as one line, or as two where one would be too long; nothing where there is nothing."""
    whole = f"  {start}{rest}"
    if not rest or len(whole) <= width or not start:
        return [whole.rstrip()] if whole.strip() else []
    return [f"  {start.rstrip()}", f"    {rest}"]


def _where(told: Explanation) -> str:
    """Return the source, and on what it fails: 'softmax.c, -O0 and -O2', or how many targets."""
    names = [told.target, *(name for name, verdict in told.verdicts.items() if verdict == told.verdict.value)]
    own = TargetId.parse(told.target).implementation
    failing = [TargetId.parse(name) for name in names if TargetId.parse(name).implementation == own]
    passing = [
        name
        for name, verdict in told.verdicts.items()
        if verdict == "PASS" and TargetId.parse(name).implementation == own
    ]
    where = f"{len(failing)} targets" if len(failing) > 2 else " and ".join(each.where for each in failing)
    return f"{told.source}, {where}{f' of {len(failing) + len(passing)}' if passing and len(failing) > 2 else ''}"


def _case_words(case: SmallestCase, width: int) -> str:
    """Return the inputs in a few words: their values where these are few, else their shapes; the parameters where there
    is room for them."""
    parameters = "".join(f", {name} = {value.decimal}" for name, value in case.parameters.items() if name != AXIS)
    values = ", ".join(f"{name} = {_nested(memory)}" for name, memory in case.inputs.items() if memory.values)
    shapes = ", ".join(f"{name} {_shape(memory)}" for name, memory in case.inputs.items())
    are_few = len(values) <= _MOST_VALUES and all(memory.values for memory in case.inputs.values())
    shown = values if are_few else f"{shapes} ({case.recipe})" if case.recipe else shapes
    return shown + parameters if len(shown + parameters) <= width - len("    ->") else shown


def _shape(memory: Memory) -> str:
    return f"{'x'.join(map(str, memory.shape)) or 'scalar'} {memory.dtype}"


def _outcome_words(told: Explanation) -> str:
    """Return what came of the smallest case, and what must come."""
    worst = told.worst
    if worst is None or told.reason:
        return told.reason or phrase(told)
    must = f"{element(worst.output, worst.index)} = {worst.got.decimal}, must be {worst.expected.decimal}"
    if worst.low.decimal == worst.high.decimal:
        return must
    return f"{must} (or {worst.low.decimal} to {worst.high.decimal})"


def _evidence_words(told: Explanation, width: int) -> Iterator[str]:
    """Yield what becomes of the case with one thing changed, as much as fits into a line, and how the rule was tested.
    What the rule speaks of comes first."""
    rules = [each.cause for each in told.rule.alternatives] if told.rule is not None else []
    ending = tested_words(told.rule) if told.rule is not None else ""
    if told.explained == "not yet":
        ending = told.note or "not explained yet"
    elif told.rule is None and (told.contract is None or not told.contract.telling) and told.suggestion is None:
        ending = "no simple rule says when"
    passing = [each for each in told.counterfactuals if each.passing]
    passing.sort(key=lambda each: not any(is_named(rule, each.subject) for rule in rules))
    room = width - 2 - len(ending)
    for each in passing:
        words = nearest_words(each)
        room -= len(words) + 2
        if room < 0:
            break
        yield words
    if ending:
        yield ending


def full_text(told: Explanation, commands: Commands, seen: str = "") -> str:
    """Return everything that is known: verdict, tensors, the worst element with every term of its budget, who else
    fails, the explanation, and the commands."""
    return "\n".join([*_lines(told), *_command_lines(commands, told.case.digest, seen)])


def _lines(told: Explanation) -> Iterator[str]:
    yield f"{told.verdict.value}  {told.kernel}  {told.target}"
    if told.reason:
        yield _line("what", told.reason)
    yield from _case_lines(told)
    if told.worst is not None:
        yield from _worst_lines(told.worst, [name for name, memory in told.case.inputs.items() if memory.values])
    yield from _other_targets(told.target, told.verdict.value, told.verdicts)
    yield from explanation_lines(told)


def _line(label: str, text: str) -> str:
    return f"  {label:<13} {text}"


def explanation_lines(told: Explanation) -> Iterator[str]:
    """Yield what shrinking and probing found out, with labels: the contract that may be meant, when it fails, what one
    change does, who else fails, which elements."""
    fits = [_line("contract", contract_words(told.contract))] if told.contract is not None else []
    yield from fits if told.contract is not None and told.contract.telling else ()
    if told.suggestion is not None:
        yield _line("declare", suggestion_words(told.suggestion))
    if told.case.original:
        changed = ", ".join(f"{name} {old} -> {new}" for name, old, new in told.case.changes)
        yield _line("shrunk", f"{changed or 'plainer values or layout'} (was {told.case.original[:12]})")
    for number, line in enumerate(counterfactual_lines(told.counterfactuals)):
        yield _line("" if number else "nearby", line)
    if told.attribution is not None:
        yield _line("cause", f"{told.attribution.cause}: {told.attribution.evidence}")
    for label, line in rule_lines(told):
        yield _line(label, line)
    if told.places is not None:
        yield _line("bad elements", places_words(told.places))
    yield from fits if told.contract is not None and not told.contract.telling else ()
    if told.beside:
        counted = " and ".join(f"{count} {verdict}" for verdict, count in sorted(told.beside.items()))
        yield _line("also here", f"{counted}, which no rule tells from this failure")
    if told.explained == "in part":
        more = f"; see {told.option}" if told.option else ""
        yield _line("not finished", f"the time for explaining was over{more}")
    if told.note:
        yield _line("note", told.note)


def _command_lines(commands: Commands, digest: str, seen: str) -> Iterator[str]:
    facts = (
        ("reproduce", commands.reproduce),
        ("as found", commands.as_found),
        ("case file", f"{commands.case_file}  (digest {digest[:12]})" if commands.case_file else ""),
        ("found by", commands.found_by),
        ("seen", seen),
    )
    yield from (_line(label, text) for label, text in facts if text)


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
    yield _line("values", f"recipe {case.recipe} ({structured})")


def _number(value: Number) -> str:
    return f"{value.decimal} ({value.bits})" if value.bits else value.decimal


def _shown_values(memory: Memory) -> Iterator[str]:
    if memory.values:
        yield _line("", _nested(memory))


def _nested(memory: Memory) -> str:
    """Return the elements as Python writes lists of lists."""
    said = list(memory.values)
    for extent in reversed(memory.shape):
        said = [f"[{', '.join(said[at : at + extent])}]" for at in range(0, len(said), extent)]
    return said[0]


def _twin_lines(case: Call, twin: Call) -> Iterator[str]:
    """Yield what the law's twin changes."""
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
    """Return its memory, or the input whose it is: exactly, or from so many elements before or after its first one."""
    if not memory.shares:
        return _tensor(memory)
    if memory.apart is None:
        return f"in place of {memory.shares}"
    how = f"{abs(memory.apart)} elements {'after' if memory.apart > 0 else 'before'} {memory.shares}"
    return f"{_tensor(memory)}, {how}, in its memory"


def _tensor(memory: Memory) -> str:
    place = "flush" if memory.offset == 0 else f"{memory.offset} elements"
    side = "before a guard page" if memory.guard == "after" else "after a guard page"
    where = f"base at {memory.alignment} mod 64 bytes, {place} {side}"
    return f"T({list(memory.shape)}, {memory.dtype}, strides {list(memory.strides)}), {where}"


def element(output: str, index: Sequence[int]) -> str:
    """What an element is called, such as `y[0, 3]`; that of an output without dimensions like the output."""
    return f"{output}[{', '.join(map(str, index))}]" if index else output


def _worst_lines(worst: WorstElement, shown: Collection[str]) -> Iterator[str]:
    """Yield the worst element: got and expected in decimal and hex, ulp, err/budget and its terms; what it was made of
    but for the `shown` inputs, whose values stand there already."""
    if worst.failing:
        against = (
            "contradicts the declared contract: outside the worst-case budget too"
            if worst.contradicts
            else "an accuracy failure: outside the statistical budget, inside the worst case"
        )
        yield _line("failing", f"{worst.failing} of {worst.of} elements of {worst.output}; {against}")
    yield _line("worst", element(worst.output, worst.index))
    yield _line("got", _number(worst.got))
    yield _line("expected", _number(worst.expected))
    yield _line("error", f"{_signed(worst.ulp)} ulp, err/budget {_ratio(worst.ratio)}")
    yield from allowance_lines(replace(worst, given=tuple(each for each in worst.given if each[0] not in shown)))


def _signed(ulp: float | None) -> str:
    return "+inf" if ulp is None else f"{ulp:+.4g}"


def _ratio(ratio: float | None) -> str:
    return "inf" if ratio is None else f"{ratio:.4g}"


def allowance_lines(worst: WorstElement) -> Iterator[str]:
    """Yield the exact value, what is allowed, each term of the budget, and what the element was calculated from."""
    yield _line("exact", worst.exact)
    yield _line("allowed", f"{_number(worst.low)} to {_number(worst.high)}")
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
    """Yield who else fails on the case, who does not: what a kernel's author asks next."""
    same = [name for name, other in others.items() if other == verdict]
    passing = [name for name, other in others.items() if other == "PASS"]
    different = [name for name, other in others.items() if other not in (verdict, "PASS", "NOT_RUN")]
    everyone = Counter(TargetId.parse(name).implementation for name in (target, *others))
    for label, names in (("also fails", same), ("otherwise", different), ("passes on", passing)):
        if names:
            yield _line(label, _targets_words(names, others if label == "otherwise" else {}, everyone))


def _targets_words(names: Sequence[str], verdicts: Mapping[str, str], everyone: Mapping[str, int]) -> str:
    """Return target names, with all targets of one kernel and verdict as one: 'c-sve on all 12 targets'."""
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
