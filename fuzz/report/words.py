"""The words of an explanation: each fact in English, in one place. Only people read these words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from fuzz.core.base.dtypes import shortest
from fuzz.core.base.fill import FILLS
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.explain import explanation
from fuzz.explain.rule.bounds import HELD
from fuzz.explain.rule.rule import Rule

UNLESS = "unless values or a coarse dtype hide it"
PHRASES: Mapping[Verdict, str] = {
    Verdict.FAIL_NUMERIC: "wrong values",
    Verdict.FAIL_NONFINITE: "wrong NaN or infinity",
    Verdict.FAIL_LAW: "breaks {law}",
    Verdict.FAIL_MEMORY: "reads or writes outside its tensors",
    Verdict.FAIL_SHAPE: "an output of the wrong shape",
    Verdict.FAIL_DTYPE: "an output of the wrong dtype",
    Verdict.FAIL_INPUT_MODIFIED: "changes an input",
    Verdict.FAIL_UNWRITTEN: "leaves elements as they were",
    Verdict.FAIL_ACCEPTED_INVALID: "takes what it must reject",
    Verdict.CRASH: "crashes",
    Verdict.TIMEOUT: "hangs",
    Verdict.REJECTED: "refuses what it should take",
    Verdict.FAIL_PROCESS: "leaves its process changed",
}
"""What the kernel does wrong, by verdict."""
_BY_VALUES = (Verdict.FAIL_NUMERIC, Verdict.FAIL_NONFINITE, Verdict.FAIL_UNWRITTEN)
"""The verdicts whose words are left out if a cause is known; for other verdicts both are stated."""
_UNSET = {
    "registers": "a register",
    "stack": "memory of the stack",
    "heap": "memory from an allocator",
    "shared": "shared memory",
}
_UNSET_THERE = {"shared": "shared memory"}
_NEAREST = 4
"""The most values of one kind that the first lines name. The full text names all."""


def what_is_wrong(told: explanation.Explanation) -> str:
    """Return what the kernel does wrong, and when, in half a line: it heads every report of the failure."""
    if told.contract is not None and told.contract.telling:
        lost = f": {told.mechanism.step}" if told.mechanism is not None and told.mechanism.step else ""
        return f"right only as {told.contract.says}{lost}"
    if told.suggestion is not None:
        dim, step = told.suggestion.dim, told.suggestion.step
        which = f"{dim} mod {step} != 0" if step else f"longer {dim}" if dim else "empty tensors"
        return f"refuses {which}: declare {told.suggestion.says}?"
    what = f"reads {unset_words(told.unset)}" if told.unset is not None else phrase(told)
    if told.mechanism is not None:
        what = f"{'' if told.verdict in _BY_VALUES else f'{what}: '}{mechanism_words(told.mechanism)}"
        if told.mechanism.kind not in ("ignores", "keeps", "loses"):  # other mechanisms say when, too
            return what
    what += ", not the same each time" if told.unsteady is not None else ""
    what += f" {told.earlier}" if told.earlier is not None else ""
    return f"{what} {_when(told.rule)}" if told.rule is not None else what


_MECHANISMS = {
    "ignores": (
        "ignores {about}", "with other values of {about} it returns the same bits, which cannot be right for both"
    ),
    "keeps": (
        "keeps {about} of an earlier call", "called again with other values of {about} it returns the same bits"
    ),
    "stale": (
        "returns the output of an earlier call", "what was right for one call it returns for the next one, too"
    ),
    "loses": (
        "loses {count} of {of} terms along {dim}",
        "other values of {about} at {dim} = {places} change no bit of the result, and must",
    ),
    "apart": (
        "needs all of {about} within 2^31 elements", "with the same values of {about} in rows that lie nearer it passes"
    ),
    "layout": ("needs contiguous {about}", "with the same values of {about} side by side in memory it passes"),
    "form": ("is {about}", "its results are the values of that, wherever it is another one"),
    "scale": (
        "right until {about} {be} about {limit}{step}", "the same values of {about} pass when smaller"
    ),
    "down": (
        "right down to {about} of about {limit}{step}", "the same values of {about} pass when larger"
    ),
    "takes": (
        "rounds {about} to {step_alone}", "so rounded, {about} gives the same bits, which are right for that alone"
    ),
    "narrow": (
        "{about} {step_alone}", "all its results are numbers of {step_alone}, as far off as its roundings may put them"
    ),
    "inside": (
        "rounds {about} to {step_alone}", "its results are those of the formula with that step rounded to {step_alone}"
    ),
    "unless": (
        f"{PHRASES[Verdict.FAIL_NUMERIC]}, right with {{about}}",
        "so it passes, and fails with other ordinary values",
    ),
    "unordered": (
        "ignores the order of {about} along {dim}",
        "reversed along {dim}, {about} gives the same result but for rounding, and must not",
    ),
    "step": ("wrong where {step_alone}", "its results are those of a formula with that step, right and wrong ones"),
    "shift": (
        "right until {about} {be} about {limit} from {origin}{step}",
        "with {about} as far apart, but nearer to {origin}, it passes",
    ),
    "power": ("right only where {dim} is a power of two", "ordinary values pass there, and fail at lengths between"),
    "linear": ("is not linear", "each unit impulse passes, and the results of a sum are not the sums of theirs"),
    "bins": (
        "wrong in {count} of {of} results of a row{step}", "of each unit impulse all are right but {about} at {places}"
    ),
    "impulses": (
        "wrong factors at {count} of {of} places of {about}", "unit impulses at {places} are wrong, all others right"
    ),
    "coarse": (
        "has coarse factors, off by {limit}", "unit impulses, which show each factor alone, are that far off"
    ),
    "tie": ("chooses otherwise at a near tie", "the two values that decide differ by {limit} of themselves"),
}  # fmt: skip
"""The words for what a kernel does wrong, and for the experiment that showed it, by kind."""


def mechanism_words(found: explanation.Mechanism) -> str:
    """Return what the kernel does wrong, in words."""
    return _of_mechanism(found, 0)


def mechanism_evidence(found: explanation.Mechanism) -> str:
    """Return the experiment that showed it, in words."""
    return _of_mechanism(found, 1)


def _of_mechanism(found: explanation.Mechanism, which: int) -> str:
    about, places = found.about or "all inputs", ", ".join(map(str, found.places[:_NEAREST]))
    more = ", ..." if len(found.places) > _NEAREST else ""
    return _MECHANISMS[found.kind][which].format(
        about=about, dim=found.dim, origin=found.dim or 0, places=f"{places}{more}", count=len(found.places),
        of=found.of, limit=f"{found.limit:.2g}", step=f" ({found.step})" if found.step else "", step_alone=found.step,
        be="are" if " and " in about else "is",
    )  # fmt: skip


def phrase(told: explanation.Explanation) -> str:
    """Return what the kernel does wrong, by its verdict, in words."""
    return PHRASES.get(told.verdict, told.verdict.value).format(law=told.law)


def _when(rule: explanation.StatedRule) -> str:
    causes = [str(each.cause) for each in rule.alternatives]
    return f"when {'; or '.join(causes)}" if all(causes) else "always" if not rule.not_varied else "in all cases tried"


def rule_lines(told: explanation.Explanation) -> Iterator[tuple[str, str]]:
    """Yield the rule of when it fails with its evidence, or a remark that there is none, each with its label."""
    fails, rule = f"breaks {told.law}" if told.law else "fails", told.rule
    if rule is not None:
        yield f"{fails} when", f"{_stated(rule)} ({_evidence(rule)})"
        for band in rule.bands:
            yield "and when", str(band)
        if rule.held:
            counts = "; ".join(
                f"{counted(each.passing, 'case passes', 'cases pass')} without {each.condition}" for each in rule.held
            )
            yield "held against", f"{counts}{', with all others' * (len(rule.held) > 1)}"
    elif told.explained != "not yet":
        yield f"{fails} when", no_rule(told)
        if told.shared is not None and not told.note:
            yield "in common", shared_words(told.shared)


def shared_words(shared: explanation.SharedCondition) -> str:
    """Return the condition that all failing cases share, in words."""
    return f"in all failing cases {shared.condition} (all {shared.passing:,} others that were tried pass)"


def no_rule(told: explanation.Explanation) -> str:
    """Return a remark that there is no simple rule, that there was no time to find one, or that none was sought."""
    if told.option == explanation.NO_SHRINK:
        return f"no rule was sought, as of {explanation.NO_SHRINK}"
    if told.explained == "in part":
        more = f"; {told.option} gives more" if told.option else ""
        return f"no rule was found in time{f': {told.note}' if told.note else ''}{more}"
    return "no simple rule says when"


def _stated(rule: explanation.StatedRule) -> str:
    """Return the rule in words: the cause first, then further conditions for the failure to show."""
    stated = "; or ".join(
        f"{each.cause}; it shows only where {each.shows_where}" if each.shows_where.atoms else str(each.cause)
        for each in rule.alternatives
    )
    if not stated:
        stated = f"always, as far as is known: not varied were {', '.join(rule.not_varied)}" * bool(rule.not_varied)
        stated = stated or "always"
    where = f", mostly where {rule.hides}" if rule.hides is not None else ""
    return f"{stated}, {UNLESS}{where}" if rule.hidden else stated


def _evidence(rule: explanation.StatedRule) -> str:
    agreeing = f"{counted(rule.probes, 'case agrees', 'cases agree')} and none is against it"
    if rule.inside or rule.outside:
        tests = f"{rule.inside:,} where it says that it fails and {rule.outside:,} where it says that it passes"
        agreeing += f"; {rule.inside + rule.outside:,} of them were drawn to refute it, {tests}"
    if rule.hidden:
        of = f"in {rule.hidden:,} of {rule.met:,} that meet it" if rule.met else f"in {rule.hidden:,} more that meet it"
        agreeing += f"; {of} the error is within what is allowed, which with ordinary values it is not"
    return agreeing + (f"; it is true of {rule.searched:,} further cases of a search" if rule.searched else "")


def tested_words(rule: explanation.StatedRule) -> str:
    """Return in a few words how thoroughly the rule was tested."""
    further = rule.inside + rule.outside + rule.searched
    hidden = f"; values hide it in {rule.hidden:,}{f' of {rule.met:,}' if rule.met else ''}" if rule.hidden else ""
    return f"tested on {further:,} further cases, none against it{hidden}" if further else ""


def counterfactual_words(found: explanation.Counterfactual) -> str:
    """Return the results of one change: 'passes at n = 4; fails at n = 1 to 3, 5'. If few other failing cases were
    compared, passing is stated of this case only."""
    both = (("passes" if found.against >= HELD else "this case passes", found.passing), ("fails", found.failing))
    return "; ".join(f"{verb} at {found.subject} = {_listed(values)}" for verb, values in both if values)


def nearest_words(found: explanation.Counterfactual) -> str:
    """Return the results of one change for the values nearest to that of the smallest case."""
    passing, failing = (_nearest(values, found.own) for values in (found.passing, found.failing))
    return counterfactual_words(replace(found, passing=passing, failing=failing))


def _nearest(values: Sequence[int | float | str], own: int | float | str) -> tuple[int | float | str, ...]:
    """Return the numbers nearest to the own one, in order; of words, the first ones."""
    numbers = [value for value in values if not isinstance(value, str)]
    if isinstance(own, str) or len(numbers) < len(values):
        return tuple(values[:_NEAREST])
    return tuple(sorted(sorted(numbers, key=lambda value: abs(value - own))[:_NEAREST]))


def counterfactual_lines(found: Sequence[explanation.Counterfactual]) -> Iterator[str]:
    """Yield the results of each change; changes that never make the case pass are listed by their subjects."""
    yield from (counterfactual_words(each) for each in found if each.passing)
    for each in found:
        if each.refuted:
            yield f"passes at {each.subject} = {_listed(each.refuted)}, where other cases fail"
    if least := min((each.against for each in found if each.passing), default=0):
        yield f"{counted(least, 'failing case has', 'failing cases have')} other values than those that pass"
    if alike := [each.subject for each in found if not each.passing and not each.refuted]:
        yield f"fails alike with other {', '.join(alike)}"


def _listed(values: Sequence[int | float | str]) -> str:
    """Return the values; three or more consecutive whole numbers become '1 to 3'."""
    if not all(isinstance(value, int) for value in values):
        words = [value for value in values if isinstance(value, str)]
        numbers = sorted(value for value in values if not isinstance(value, str))
        return ", ".join([*map(shortest, numbers), *words])
    whole, runs = sorted(map(int, values)), list[list[int]]()
    for before, number in pairwise([None, *whole]):
        if before is not None and number == before + 1:
            runs[-1].append(int(number))
        elif number is not None:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def contract_words(found: explanation.FittingContract) -> str:
    """Return the contract that fits, how much it allows, and how many runs support it, in words."""
    runs = f"all {found.failing} failing" + (f" and {found.passing} passing" if found.passing else "") + " runs tried"
    more = f"; {found.others} wider neighbours fit too" if found.others > 1 else ""
    more = "; a wider neighbour fits too" if found.others == 1 else more
    meant = f", that is, with {found.meaning}," if found.meaning else ""
    said = f"conforms to {found.says}{meant} in {runs}, which allows {_times(found.width)} there{more}"
    if found.telling:
        return f"{said}; now it is held to {found.declared}"
    used = f"the kernel uses {found.used:.2g} of that"
    why = (
        used if found.typical <= explanation.WIDE else f"it allows {_times(found.typical)} where the kernel passes too"
    )
    return f"{said}; {why}, so this proves little"


def _times(width: float) -> str:
    if width == math.inf:
        return "everything"
    if width > explanation.MANY:
        return f"more than {explanation.MANY:,.0f} times as much"
    if width > explanation.ALIKE:
        return f"{width:,.2g} times as much" if width < 100 else f"{width:,.0f} times as much"
    return "as much" if width >= 1 / explanation.ALIKE else "less"


def suggestion_words(found: explanation.Suggestion) -> str:
    """Return the declaration that may be missing, and what supports it, in words."""
    meant = f"where that is meant, declare {found.says}"
    if found.dim and not found.step:
        what = f"{found.dim} is longer in all {found.failing} failing cases than in all {found.passing} that pass"
        return f"{what}: {meant}"
    if found.dim:
        what = f"{found.dim} is no multiple of {found.step}"
        return f"{what} in all {found.failing} failing cases, and is one in all {found.passing} that pass: {meant}"
    others = counted(found.passing, "other passes", "others pass")
    return f"nothing but what has no elements fails ({counted(found.failing, 'case')}; {others}): {meant}"


def unset_words(found: explanation.UnsetRead) -> str:
    """Return the unset memory that the kernel reads, in words."""
    where = [_UNSET.get(each, each) for each in found.where] or ["a register, the stack or new memory"]
    return f"{' and '.join(where)} that nobody set"


def unset_evidence(found: explanation.UnsetRead) -> str:
    """Return the results of the smallest case with other values in the unset memory."""
    named = [_UNSET_THERE.get(each, each) for each in found.where]
    there = f"the {' or the '.join(named)}" if named else "registers, stack and heap"
    with_anything = len(found.fails_with) == len(FILLS) - 1
    other = "anything else that was tried" if with_anything else " or ".join(found.fails_with)
    return f"passes with 0 in {there} before the call, fails with {other}"


def places_words(found: explanation.Places) -> str:
    """Return the pattern of bad elements, and the number of elements that it was learned from."""
    learned, elements = (
        found.learned,
        f"{counted(found.learned.probes, 'element')} of all failing cases that were looked at",
    )
    if not learned.exact:
        return f"no simple pattern in {found.output}"
    if not learned.rule.atoms:
        return f"all of {found.output} ({elements})"
    return f"{learned.rule}, in {found.output} ({elements})"


def nested(memory: explanation.Memory) -> str:
    """Return the elements as nested lists in Python's notation."""
    said = list(memory.values)
    for extent in reversed(memory.shape):
        said = [f"[{', '.join(said[at : at + extent])}]" for at in range(0, len(said), extent)]
    return said[0]


def element(output: str, index: Sequence[int]) -> str:
    """Return the name of an element, such as `y[0, 3]`; for an output without dimensions, the name of the output."""
    return f"{output}[{', '.join(map(str, index))}]" if index else output


def is_named(rule: Rule, subject: str) -> bool:
    """Whether a condition of the rule has the subject of a counterfactual."""
    return any(atom.trait.subject == subject for atom in rule.atoms)
