"""Places: which elements of an output are bad, as a rule about their row and column."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from fuzz.base.case import Case
from fuzz.base.draw import Frame
from fuzz.judge.judge import Judgement
from fuzz.triage.inducer import learn
from fuzz.triage.rule import Learned, Traits
from oracles.enclosure import Mask
from oracles.operand import OUTER
from oracles.ops import OPS

_BLOCKS = (4, 8, 16, 32, 64, 128)
_CASES = 4
"""The rule must hold for up to this many failing cases."""
_CHECKED, _RELEARNED = 48, 4
"""The further cases of which the rule must be true too, and those that contradict it which may give another one. Both
were chosen, not measured."""
_MOST_ELEMENTS = 6000
_PLAIN_ROWS = 2
_SPECIAL = ("large", "tiny", "zeros", "one NaN", "one infinity", "spike", "last row")
"""With values of these recipes an element may look right that is not."""

Element = tuple[Traits, bool]
"""Where it is, and whether it is bad."""


@dataclass(frozen=True)
class Places:
    """Where the bad elements are."""

    output: str
    learned: Learned

    @property
    def key(self) -> str:
        """The same for all failures of one bug."""
        return f"{self.output}: {self.learned.rule if self.learned.exact else 'no pattern'}"

    def __str__(self) -> str:
        learned, elements = self.learned, f"{self.learned.probes:,} elements"
        if not learned.exact:
            best = str(learned.rule) or "all"
            return f"no simple pattern in {self.output} (best: {best}, {learned.agreeing:,} of {elements})"
        if not learned.rule.atoms:
            return f"all of {self.output} ({elements})"
        return f"{learned.rule}, in {self.output} ({elements} agree)"


def places_of(failures: Sequence[tuple[Case, Judgement]]) -> Places | None:
    """The pattern that several failing cases have in common, those of several rows and many columns first."""
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
    return Places(first.output, _learned(elements, others[:: -(-len(others) // _CHECKED) or 1]))


def _learned(elements: list[Element], others: Sequence[tuple[Case, Judgement]]) -> Learned:
    """The rule of these elements; where another failing case contradicts it, one that is true of both. In rows of 9 to
    11 a tail of 8 is one of 4.

    What makes it longer is left out: an element that should be bad may be right by chance.
    """
    learned, again = _taught_by(elements), _RELEARNED
    for failure in others:
        more = list(_elements(*failure))
        if again and learned.exact and any(learned.rule.holds(traits) != failed for traits, failed in more):
            other, again = _taught_by([*elements, *more]), again - 1
            if other.exact and other.rule.size <= max(learned.rule.size, 1):
                learned, elements = other, [*elements, *more]
    return learned


def _taught_by(elements: Sequence[Element]) -> Learned:
    return learn([traits for traits, _ in elements], [failed for _, failed in elements])


def _has_mask(judgement: Judgement) -> bool:
    mask = judgement.worst.mask if judgement.worst is not None else None
    return mask is not None and bool(mask.any())


def _telling(case: Case) -> tuple[bool, bool, bool, int]:
    """Several rows tell more than one, hundreds of columns more than three, and thousands only cost time."""
    frame = Frame(case)
    rows = math.prod(frame.outer)
    size = rows * frame.n
    special = case.origin.recipe in _SPECIAL
    return size > _MOST_ELEMENTS // _CASES, special, rows < _PLAIN_ROWS, -size


def _elements(case: Case, judgement: Judgement) -> Iterator[Element]:
    check, frame = judgement.worst, Frame(case)
    assert check is not None
    assert check.mask is not None
    if not OPS[case.op].by_rows:
        yield from _indexed(case, check.output, np.asarray(check.mask).reshape(case.outputs[check.output].layout.shape))
        return
    mask = np.asarray(check.mask).reshape(case.outputs[check.output].layout.shape)
    role = frame.role(check.output)
    if role == "grid":
        mask = np.moveaxis(mask, frame.axis, -1).reshape(-1, frame.n)
    mask = mask.reshape(-1, 1) if role == "rows" else mask.reshape(-1, mask.shape[-1] if mask.ndim else 1)
    columns = min(mask.shape[1], _MOST_ELEMENTS)
    rows = max(min(len(mask), _MOST_ELEMENTS // max(columns, 1)), 1)
    for row, column in np.ndindex(*mask[:rows, :columns].shape):
        yield _place(row, column, mask.shape[1], role), bool(mask[row, column])


def _indexed(case: Case, output: str, mask: Mask) -> Iterator[Element]:
    """Elements by their indices along the dimensions of the output, of an op that is not a row op."""
    named = [dim for dim in OPS[case.op].operand(output).axes if dim != OUTER]
    outer = mask.shape[: mask.ndim - len(named)]
    mask = mask.reshape(math.prod(outer), *mask.shape[len(outer) :])
    for index in islice(np.ndindex(*mask.shape), _MOST_ELEMENTS):
        traits: dict[str, int | str] = {"index in the batch": index[0]} if outer else {}
        for dim, at, size in zip(named, index[1:], mask.shape[1:], strict=True):
            traits.update({f"index along {dim}": at, f"index along {dim} from the end": size - 1 - at})
            for block in _BLOCKS:
                traits[f"index along {dim} mod {block}"] = at % block
                traits[f"tail of {block} along {dim}"] = "inside" if at >= size - size % block else "before"
        yield traits, bool(mask[index])


def _place(row: int, column: int, columns: int, role: str) -> Traits:
    if role == "rows":
        return {"row": row}
    traits: dict[str, int | str] = {} if role == "columns" else {"row": row}
    traits.update({"column": column, "columns from the end": columns - 1 - column})
    for block in _BLOCKS:
        traits[f"column mod {block}"] = column % block
        traits[f"tail of {block}"] = "inside" if column >= columns - columns % block else "before"
    return traits
