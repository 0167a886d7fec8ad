"""Attribution: the cause of a failure, concluded from which kernels and targets fail on the same case; and places:
a rule for the bad elements of an output, by their row and column."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np

from fuzz.core.adapters.registry import adapter_of
from fuzz.core.adapters.target import Target, causes_by_trait
from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.base.feature import Feature
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.explain.explanation import Attribution, Places
from fuzz.explain.rule.inducer import learn
from fuzz.explain.rule.rule import Learned, Rule, Traits
from fuzz.explain.rule.traits import target_traits
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS

_RUNTIME = frozenset({"-lm", "-lc", "-ldl", "-lrt", "-lpthread", "-lgcc", "-lgomp", "-latomic", "-lstdc++"})
"""Libraries that come with a compiler: two kernels that link with them need not have a common author."""
_ENOUGH = 3
"""The number of failing witnesses that accuse the oracle or the case: two may have the same author. Chosen."""


def attributed(
    target: Target, targets: Sequence[Target], judgements: Mapping[str, Judgement], rule: Rule | None = None
) -> Attribution:
    """Return the attribution of the failure on `target`, given the judgements of its case on all targets. The targets
    that fail may depend on the case: short rows fail only where vectors are short. So a `rule`, found by probing all
    targets, tells better which of their traits matter."""
    name = target.kernel.name
    told = [(each, judgements[each.id].verdict) for each in targets if each.id in judgements]
    own = [(each, verdict) for each, verdict in told if each.kernel.name == name and _says(verdict)]
    failing = [each for each, verdict in own if verdict.is_finding]
    passing = [each for each, verdict in own if not verdict.is_finding]
    others = _others(told, name)
    if not failing:
        return Attribution("earlier calls", f"{name} passes here on every target, so the failure needs calls before it")
    kernels = {each.kernel.name: each.kernel for each, _ in told}
    groups = witnesses([kernels[each] for each in (name, *others)])
    if len(groups) >= _ENOUGH and all(others.values()) and not passing:
        of = f" of {_sources(len(groups))}" if len(groups) <= len(others) else ""
        return Attribution(
            "the oracle or the case",
            f"all {len(others) + 1} kernels{of} that take the case fail on it, {name} among them",
        )
    cause, evidence, decides = _within(name, failing, passing)
    # Those of a costly target were not probed: what configurations decide is seen on this case alone.
    seen = decides if target.costly and decides is not None and _configuration(decides) else None
    if rule is not None and passing and rule.atoms and seen is None:
        cause = _cause(decides := rule, target.kernel)
    said = "; ".join([evidence, *_witnessed(name, others, groups)])
    return Attribution(cause, said, _configuration(decides) if decides is not None else "")


def _says(verdict: Verdict) -> bool:
    return verdict is Verdict.PASS or verdict.is_finding


def _others(told: Sequence[tuple[Target, Verdict]], name: str) -> dict[str, bool]:
    """Return for each other kernel whether it fails on at least one target."""
    others: dict[str, bool] = {}
    for target, verdict in told:
        if target.kernel.name != name and _says(verdict):
            others[target.kernel.name] = others.get(target.kernel.name, False) or verdict.is_finding
    return others


def witnesses(kernels: Sequence[Kernel]) -> list[frozenset[str]]:
    """Return the names of the kernels in groups that share a source or library, as each group's agreement counts
    once."""
    found: list[list[Kernel]] = []
    for kernel in kernels:
        alike = [group for group in found if any(_are_one(kernel, each) for each in group)]
        found = [group for group in found if group not in alike]
        found.append([kernel, *(each for group in alike for each in group)])
    return [frozenset(each.name for each in group) for group in found]


def _are_one(one: Kernel, other: Kernel) -> bool:
    """Whether both kernels share a source file or a library, or the source of one includes that of the other."""
    if _borrowed(one) & _borrowed(other):
        return True
    mine, theirs = one.source.resolve(), other.source.resolve()
    return mine == theirs or mine in _files(other) or theirs in _files(one)


def _borrowed(kernel: Kernel) -> set[Path | str]:
    """Return the code by others in a kernel: the packages that it imports and the libraries that it links with."""
    libraries = (each.resolve() if isinstance(each, Path) else each for each in kernel.libraries)
    return {*kernel.packages, *(each for each in libraries if each not in _RUNTIME)}


def _code(kernel: Kernel) -> str:
    """Return the code that the kernel's author should look at: the source, or a library that it calls."""
    names = [Path(each).name for each in kernel.libraries if each not in _RUNTIME]
    if not names:
        return kernel.blamed
    what = "library" if len(names) == 1 else "libraries"
    return f"the {what} {' or '.join(names)}, or its caller {kernel.source.name}"


def _files(kernel: Kernel) -> Collection[Path]:
    """Return the files that the kernel is built from; none if a source holds several kernels."""
    adapter = adapter_of(kernel)
    return adapter.files(kernel) if adapter.kernel_per_source else ()


def _witnessed(name: str, others: Mapping[str, bool], groups: Sequence[Collection[str]]) -> list[str]:
    """Return sentences about the kernels that fail on the case, and those that agree with the oracle, by source."""
    own = next(group for group in groups if name in group)
    siblings = [others[each] for each in own if each != name]
    elsewhere = [each for each, fails in others.items() if fails and each not in own]
    agreeing = [group for group in groups if group is not own and not any(others[each] for each in group)]
    count = sum(map(len, agreeing))
    of = f" of {_sources(len(agreeing))}" if len(agreeing) < count else ""
    told = (
        (sum(siblings), " of the same source or library", "fails", "fail", " too"),
        (siblings.count(False), " of the same source or library", "agrees", "agree", " with the oracle"),
        (count, of, "agrees", "agree", " with the oracle"),
    )
    said = [
        f"another kernel{of} {one}{what}" if count == 1 else f"{count} other kernels{of} {many}{what}"
        for count, of, one, many, what in told
        if count
    ]
    if not elsewhere:
        return said
    who = f"{elsewhere[0]}, of another source or library, fails"
    if len(elsewhere) > 1:
        names = " and ".join(elsewhere) if len(elsewhere) < _ENOUGH else f"{len(elsewhere)} other kernels"
        who = f"{names}, of other sources or libraries, fail"
    # Two sources that fail on one case are two bugs, in separate buckets: nothing says that their faults are alike.
    return [f"{who} too: each has a bug, or the op says what nobody meant", *said]


def _sources(count: int) -> str:
    return "one source or library" if count == 1 else f"{count} sources or libraries"


def _within(name: str, failing: Sequence[Target], passing: Sequence[Target]) -> tuple[str, str, Rule | None]:
    """Return the cause, a sentence about the targets that fail (what they share and the passing ones lack), and the
    rule that says it, if there is one."""
    count = len(failing)
    if not passing:
        where = f"on all {count} targets" if count > 1 else f"on {failing[0].id}, its only target here"
        return _code(failing[0].kernel), f"{name} fails {where}", None
    own = [*failing, *passing]
    learned = learn([target_traits(target) for target in own], [target in failing for target in own])
    told = f"on {count} of {counted(len(own), 'target')}"
    if learned.exact and learned.rule.atoms and not learned.others:  # of two alternatives neither holds for all
        cause = _cause(learned.rule, failing[0].kernel)
        return cause, f"{name} fails {told}, those with {learned.rule}, and passes on the others", learned.rule
    names = " ".join(target.name.where for target in failing[:4])
    return "some targets", f"{name} fails {told}: {names}{' ...' if count > 4 else ''}", None


def _cause(rule: Rule, kernel: Kernel) -> str:
    about = causes_by_trait()
    subjects = [atom.trait.subject for atom in rule.atoms if atom.trait.kind == "target"]
    named = dict.fromkeys(about.get(each, "the configuration") for each in subjects)
    return " with ".join(named) or _code(kernel)


def _configuration(rule: Rule) -> str:
    """Return the conditions of a rule on what a configuration sets."""
    about = causes_by_trait()
    own = [each for each in rule.atoms if each.trait.kind == "target" and each.trait.subject not in about]
    return " and ".join(map(str, own))


_BLOCKS = (4, 8, 16, 32, 64, 128)
_CASES = 4
"""The number of failing cases whose elements the rule is learned from."""
_CHECKED, _RELEARNED = 48, 4
"""The number of further cases that the rule must fit too, and how many that contradict it may change the rule. Both
were chosen, not measured."""
_LUCKY_ONE_IN = 32
"""One element in this many may be right by chance although the rule says bad. Chosen, not measured."""
_MOST_ELEMENTS = 6000
_PLAIN_ROWS = 2
_SPECIAL = ("large", "tiny", "zeros", "one NaN", "one infinity", "spike", "last row")
"""Recipes whose values may make a wrong element look right."""

Element = tuple[Traits, bool]
"""The traits of an element's place, and whether the element is bad."""


def places_of(failures: Sequence[tuple[Case, Judgement]]) -> Places | None:
    """Return the pattern of bad elements that the failures share, preferring cases with several rows and many
    columns."""
    known = [(case, judgement) for case, judgement in failures if _has_mask(judgement)]
    if not known:
        return None
    first = known[0][1].worst
    assert first is not None
    same = [(c, j) for c, j in known if j.worst is not None and j.worst.output == first.output]
    same.sort(key=lambda failure: _telling(failure[0]))
    elements = [element for failure in same[:_CASES] for element in _elements(*failure)]
    others = [failure for failure in same[_CASES:] if not any(_telling(failure[0])[:2])]
    if not any(failed for _, failed in elements):
        return None
    some = others[:: -(-len(others) // _CHECKED) or 1]
    # The report shows the first case, so the rule must fit it too.
    return Places(first.output, _learned(elements, [*(each for each in others if each is known[0]), *some]))


def _learned(elements: list[Element], others: Sequence[tuple[Case, Judgement]]) -> Learned:
    """Return the rule of these elements. If another failing case contradicts it, return one that fits both: a tail of 8
    in rows of 9 to 11 is also a tail of 4. Elements that are right although the rule says bad may be right by chance,
    and do not make the rule longer. But an element that the rule says is right is never bad by chance: then there is no
    rule."""
    learned, again, seen = _taught_by(elements), _RELEARNED, list[Element]()
    for failure in others:
        more = list(_elements(*failure))
        seen += more
        if again and learned.exact and any(learned.rule.holds(traits) != failed for traits, failed in more):
            other, again = _taught_by([*elements, *more]), again - 1
            if other.exact and other.rule.size <= max(learned.rule.size, 1):
                learned, elements = other, [*elements, *more]
    astray = sum(failed and not learned.rule.holds(traits) for traits, failed in seen)
    found = _without_luck(learned, elements)
    return replace(found, probes=found.probes + astray)


def _without_luck(learned: Learned, elements: Sequence[Element]) -> Learned:
    """Return the rule without its exceptions, if these are few and all are elements that are right although the rule
    says bad: some values are right by chance."""
    others = [failed for traits, failed in elements if learned.holds(traits) != failed]
    bad = sum(failed for _, failed in elements)
    if not learned.rule.atoms or any(others) or len(others) * _LUCKY_ONE_IN > bad:
        return learned
    return replace(learned, probes=learned.agreeing)


def _taught_by(elements: Sequence[Element]) -> Learned:
    return learn([traits for traits, _ in elements], [failed for _, failed in elements])


def _has_mask(judgement: Judgement) -> bool:
    mask = judgement.worst.mask if judgement.worst is not None else None
    return mask is not None and bool(mask.any())


def _telling(case: Case) -> tuple[bool, bool, bool, int]:
    """Return a sort key that puts first the cases that tell most: several rows, and hundreds of columns rather than
    three. Thousands of columns cost time and tell no more."""
    frame = Frame(case)
    rows = math.prod(frame.outer)
    size = rows * frame.n
    special = case.origin.recipe in _SPECIAL
    return size > _MOST_ELEMENTS // _CASES, special, rows < _PLAIN_ROWS, -size


def _elements(case: Case, judgement: Judgement) -> Iterator[Element]:
    check, frame = judgement.worst, Frame(case)
    assert check is not None
    assert check.mask is not None
    op, output, mask = OPS[case.op], check.output, np.asarray(check.mask)
    mask = mask.reshape(case.outputs[output].layout.shape)
    if output in op.alike:
        mask = np.moveaxis(mask, frame.axis, -1)
    dims = op.operand(output).axes
    outer = mask.ndim - len([dim for dim in dims if dim != OUTER])
    if OUTER in dims:
        mask = mask.reshape(-1, *mask.shape[outer:]) if mask.size else mask
    whole = max(_MOST_ELEMENTS // max(math.prod(mask.shape[1:]), 1), 1)
    first = mask[:whole] if mask.ndim else mask
    for index in islice(np.ndindex(first.shape), _MOST_ELEMENTS):
        traits = dict[Feature, int | str]()
        for dim, at, size in zip(dims, index, mask.shape, strict=True):
            traits.update(_along(op, dim, at, size))
        yield traits, bool(mask[index])


def _along(op: Op, dim: str, at: int, size: int) -> Iterator[tuple[Feature, int | str]]:
    """Yield the traits of index `at` along a dimension of extent `size`, for the row also those of blocks and end."""
    if dim == OUTER:
        yield Feature("index", "row" if op.any_axis else "index in the batch"), at
        return
    index, end, blocks = _features("" if op.any_axis and dim == op.row else dim)
    yield index, at
    yield end, size - 1 - at
    for block, remainder, tail in blocks:
        yield remainder, at % block
        yield tail, "inside" if at >= size - size % block else "before"


@cache
def _features(dim: str) -> tuple[Feature, Feature, Sequence[tuple[int, Feature, Feature]]]:
    """Return the features of an index along a dimension, or of a column if `dim` is ''. They are cached, since there
    are thousands of places."""
    name = f"index along {dim}" if dim else "column"
    blocks = [
        (
            block,
            Feature("remainder", name, operand=block),
            Feature("in tail along", dim, operand=block) if dim else Feature("in tail", operand=block),
        )
        for block in _BLOCKS
    ]
    return Feature("index", name), Feature("from the end", name if dim else "columns"), blocks
