"""The first lines of every report: what is wrong, the smallest case, the effect of changes, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fuzz.core.adapters.target import TargetId
from fuzz.core.base.draw import GIVEN
from fuzz.explain.explanation import NO_SHRINK, Explanation, Memory, SmallestCase
from fuzz.findings.state import short_words
from fuzz.report import words
from fuzz.report.wrapping import wrapped
from oracles.operand import AXIS

WIDTH = 80
"""The most columns of the first lines, as in a terminal of the usual width."""


_LONGER = "5m"
"""The time to suggest for finding a rule: it is enough even on a busy machine."""


@dataclass(frozen=True)
class Provenance:
    """The session that found a failure, and how its user can repeat it."""

    seed: int
    command: str
    """The command that the user typed, for example 'kernelfuzz run --seed 7 --pack mine'."""
    pack_option: tuple[str, ...] = ()
    """('--pack', FOLDER) if the kernels are not the built-in ones."""
    numbered: bool = False
    """Whether a case of the session can be named by seed, op, shard and number."""
    since: str = ""
    """The commit at which the judged change began; '' if everything is judged."""


@dataclass(frozen=True)
class Commands:
    """The commands to type about a failure; '' for each that does not apply."""

    repro: str = ""
    show: str = ""
    reproduce: str = ""
    """The `repro` command for the failing target only."""
    case_file: str = ""
    as_found: str = ""
    found_by: str = ""
    snippet: str = ""
    """Stands in place of `show`, for a user who already sees what that command prints."""


def commands_of(told: Explanation, path: Path | None, origin: Provenance, place: str = "") -> Commands:
    """Return the commands for a failure. `path` is its case file, if one could be written; `place` is the position of
    its case in the search."""
    if path is None:
        return Commands(found_by=origin.command)
    found = ""
    if origin.numbered and place:
        where = [f"{origin.seed}:{told.op}:{place}", *origin.pack_option, "--target", told.target]
        found = f"kernelfuzz repro {shlex.join(where)}"
    words = [*short_words(path, origin.pack_option), *origin.pack_option]
    repro, show = (f"kernelfuzz {verb} {shlex.join(words)}" for verb in ("repro", "show"))
    alone = f"kernelfuzz repro {shlex.join([str(path), *origin.pack_option, '--target', told.target])}"
    return Commands(repro, show, alone, str(path), found, origin.command)


def headline(told: Explanation) -> str:
    """Return one line: the kernel, and what is wrong with it."""
    decides = told.attribution.configuration if told.attribution is not None else ""
    return f"FAIL  {told.kernel}  {words.what_is_wrong(told)}{f', with {decides} only' if decides else ''}"


@dataclass(frozen=True)
class Brief:
    """The parts of the first lines of every report."""

    headline: str
    where: str
    """The source, and the targets on which it fails."""
    case: str
    """The smallest case."""
    outcome: str
    """The result, and the expected result."""
    evidence: str
    """The effect of changing one thing, and how well the rule was tested."""


def brief_of(told: Explanation, width: int = WIDTH) -> Brief:
    """Return the parts of the first lines: what is wrong and where; the smallest case with its result and the expected
    one; and as many effects of single changes, and of the rule's test, as fit into a line."""
    evidence = "; ".join(_evidence_words(told, width))
    return Brief(headline(told), _where(told), _case_words(told.case, width), _outcome_words(told), evidence)


def brief(told: Explanation, commands: Commands, width: int = WIDTH, before: int = 0) -> str:
    """Return the first lines of a report, and the commands to type next. `before` columns of line one are taken."""
    said = brief_of(told, width)
    head, seen = wrapped(said.headline, width, before=before), _folded(f"{said.case}  ->  ", said.outcome, width)
    lines = [*_placed(head, seen, said.where, width, before), *_folded("", said.evidence, width)]
    if commands.repro:
        more = f"to paste: {commands.snippet}" if commands.snippet else f"everything: {commands.show}"
        lines += _pair(f"next: {commands.repro}", more, width)
    wants_time = told.explained != "whole" and told.option != NO_SHRINK and _wants_rule(told)
    if wants_time and told.option.startswith("--") and commands.found_by:
        lines += [f"  more time: {commands.found_by} {told.option} {_LONGER}"]
    return "\n".join(lines)


def _placed(head: Sequence[str], lines: Sequence[str], where: str, width: int, before: int) -> list[str]:
    """Return both lists of lines, with `where` at the end of either if it fits, else on a line of its own."""
    every = [*head, *lines]
    for place, line in enumerate(every if where else ()):
        room = width - len(line) - len(where) - (before if place == 0 else 0)
        if room >= 2 and place in (len(head) - 1, len(every) - 1):
            return [*every[:place], f"{line}{' ' * room}{where}", *every[place + 1 :]]
    return [*head, *wrapped(f"  in {where}", width), *lines] if where else every


def _pair(left: str, right: str, width: int) -> list[str]:
    one = f"  {left:<40} {right}"
    return [one] if len(one) <= width and len(left) <= 40 else [f"  {left}", f"  {right}"]


def _folded(start: str, rest: str, width: int) -> list[str]:
    """Return both texts on one line, or on several if one would be too long; an empty list if both are empty."""
    whole = f"  {start}{rest}".rstrip()
    if not whole or len(whole) <= width or not start:
        return wrapped(whole, width) if whole else []
    return [*wrapped(f"  {start}".rstrip(), width), *wrapped(f"    {rest}", width, 6)]


def _where(told: Explanation) -> str:
    """Return the source and the failing targets: 'softmax.c, native:gcc-O0 and native:gcc-O2', or their number."""
    names = [told.target, *(name for name, verdict in told.verdicts.items() if verdict == told.verdict.value)]
    own = TargetId.parse(told.target).implementation
    failing = [TargetId.parse(name) for name in names if TargetId.parse(name).implementation == own]
    passing = [
        name
        for name, verdict in told.verdicts.items()
        if verdict == "PASS" and TargetId.parse(name).implementation == own
    ]
    where = f"{len(failing)} targets" if len(failing) > 2 else " and ".join(each.where for each in failing)
    where += f" of {len(failing) + len(passing)}" if passing and len(failing) > 2 else ""
    return f"{told.source}, {where}" if told.source else where


def _case_words(case: SmallestCase, width: int) -> str:
    """Return the inputs and parameters in a few words: the values of as many inputs as fit into a line, beginning with
    the first, and the shapes of the others."""
    parameters = "".join(f", {name} = {value.decimal}" for name, value in case.parameters.items() if name != AXIS)
    said = {name: f"{name} {_shape(memory)}" for name, memory in case.inputs.items()}
    values = {name: f"{name} = {words.nested(memory)}" for name, memory in case.inputs.items() if memory.values}
    for some in (values, *({name: text} for name, text in values.items())):
        said |= some if len(", ".join({**said, **some}.values())) <= width - len("    ->") else {}
    made = f" ({case.recipe})" if said != values and case.recipe not in ("", GIVEN) else ""
    return ", ".join(said.values()) + made + parameters


def _shape(memory: Memory) -> str:
    return f"{'x'.join(map(str, memory.shape)) or 'scalar'} {memory.dtype}"


def _outcome_words(told: Explanation) -> str:
    """Return the result of the smallest case, and the expected result."""
    worst = told.worst
    if worst is None or told.reason:
        return told.reason or words.phrase(told)
    must = f"{words.element(worst.output, worst.index)} = {worst.got.decimal}, must be {worst.expected.decimal}"
    others = [f"{worst.low.decimal} to {worst.high.decimal}"] if worst.low.decimal != worst.high.decimal else []
    others += ["nan"] if worst.may_be_nan and worst.expected.decimal != "nan" else []
    must += f" (or {', or '.join(others)})" if others else ""
    if told.elsewhere is None:
        return must
    return f"{must}; another case is {f'{told.elsewhere:.0%}' if told.elsewhere < 1 else 'more than 100%'} off"


def _evidence_words(told: Explanation, width: int) -> Iterator[str]:
    """Yield the effects of single changes, those that the rule mentions first, and how the rule was tested. They fill
    one line, or two without a rule, since the effects are then all that is known."""
    rules = [each.cause for each in told.rule.alternatives] if told.rule is not None else []
    ending = words.tested_words(told.rule) if told.rule is not None else ""
    if told.explained == "not yet":
        ending = told.note
    elif told.contract is not None and told.contract.telling and told.contract.meaning:
        yield f"that is, with {told.contract.meaning}"
    elif told.mechanism is not None:
        yield words.mechanism_evidence(told.mechanism)
    elif told.unset is not None:
        yield words.unset_evidence(told.unset)
    elif told.unsteady is not None:
        yield str(told.unsteady)
    elif _wants_rule(told):
        if told.shared is not None and not told.note:  # a note says more
            yield words.shared_words(told.shared)
        ending = words.no_rule(told)
    passing = [each for each in told.counterfactuals if each.passing]
    passing.sort(key=lambda each: not any(words.is_named(rule, each.subject) for rule in rules))
    room = width - 2 - (len(ending) if told.rule is not None else 0)
    for each in passing:
        both = (words.nearest_words(each), words.nearest_words(replace(each, failing=())))
        effect = next((each for each in both if len(each) <= room), "")
        if not effect:
            break
        room -= len(effect) + 2
        yield effect
    if not passing and told.rule is None:
        yield from words.counterfactual_lines(told.counterfactuals)
    if ending:
        yield ending


def _wants_rule(told: Explanation) -> bool:
    """Whether neither a rule nor anything else says when or why the kernel fails."""
    declared = told.suggestion is not None or (told.contract is not None and told.contract.telling)
    known = told.mechanism is not None or told.unset is not None or told.unsteady is not None
    known = known or (told.attribution is not None and bool(told.attribution.configuration))
    return told.rule is None and not known and not declared
