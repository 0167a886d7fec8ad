"""Places: which elements of an output are bad, as a rule about their row and column."""

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
"""The most failing cases for which the rule must hold."""
_CHECKED, _RELEARNED = 48, 4
"""The further cases for which the rule must be true too, and the number of those contradicting it that may give another
rule. Both were chosen, not measured."""
_LUCKY_ONE_IN = 32
"""One element in this many that should be bad may be right by chance. Chosen, not measured."""
_MOST_ELEMENTS = 6000
_PLAIN_ROWS = 2
_SPECIAL = ("large", "tiny", "zeros", "one NaN", "one infinity", "spike", "last row")
"""With values of these recipes a bad element may look right."""

Element = tuple[Traits, bool]
"""Where an element is, and whether it is bad."""


def places_of(failures: Sequence[tuple[Case, Judgement]]) -> Places | None:
    """Return the common pattern of failing elements, read first off cases of several rows and many columns."""
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
    # What is shown is the first case, so the statement must be true of it.
    return Places(first.output, _learned(elements, [*(each for each in others if each is known[0]), *some]))


def _learned(elements: list[Element], others: Sequence[tuple[Case, Judgement]]) -> Learned:
    """Return the rule of these elements; if another failing case contradicts it, one that is true of both. In rows of 9
    to 11 a tail of 8 is also one of 4. What makes the rule longer is left out: an element that should be bad may be
    right by chance. But an element that should be right is never bad by chance: then there is no such rule."""
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
    """Return what is learned, counted over the elements that agree, if the others are few that should be bad but are
    right: some values are right by chance."""
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
    """Return a sort key: several rows tell more than one, hundreds of columns more than three, and thousands only cost
    time."""
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
    """Yield the traits of a place along a dimension; for rows those of the row and of the column in it."""
    if dim == OUTER:
        yield Feature("index", "row" if op.turns else "index in the batch"), at
        return
    index, end, blocks = _features("" if op.turns and dim == op.row else dim)
    yield index, at
    yield end, size - 1 - at
    for block, remainder, tail in blocks:
        yield remainder, at % block
        yield tail, "inside" if at >= size - size % block else "before"


@cache
def _features(dim: str) -> tuple[Feature, Feature, Sequence[tuple[int, Feature, Feature]]]:
    """Return the features of places along a dimension, or of columns, which have no name; cached, since there are
    thousands of places."""
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
