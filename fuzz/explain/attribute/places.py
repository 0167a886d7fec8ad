"""Places: a rule for the bad elements of an output, by their row and column."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice

import numpy as np

from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.base.feature import Feature
from fuzz.core.judge.judge import Judgement
from fuzz.explain.explanation import Places
from fuzz.explain.rule.inducer import learn
from fuzz.explain.rule.rule import Learned, Traits
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS

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
