"""Conditions: properties of a case that a bug may need. They are coarser than coverage labels and follow from them.
Also which pairs of conditions have held together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fuzz.core.base.feature import Feature, Label, label_words
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.coverage import RELATIONS
from fuzz.core.generate.sketch import ROWS, N
from fuzz.core.generate.space import space_of
from oracles.ops import remembered

Condition = Label
"""A feature with one of its answers, such as the remainder of n over 8 with '3'."""
Pair = tuple[Condition, Condition]

_SIZES = ((1, 1), (2, 16), (17, 64), (65, 256), (257, 1023), (1024, 4095), (4096, None))
_ROWS = ((1, 1), (2, 4), (5, 16), (17, 64), (65, None))
_MODULI: Mapping[int, tuple[int, ...]] = {8: tuple(range(8)), 64: (0, 1, 31, 32, 33, 63)}
"""The remainders of n that are conditions, by divisor. For short vectors these are all remainders; for long vectors,
the remainders next to the ends and the middle."""
_EVEN = 16
"""Kernels can use vectors if this number of bytes divides an address."""
SAME = "that of the first input"
"""The answer for a tensor that has the same dtype as the first input."""
SHAPE = frozenset(("n", "rows", "row remainder", "next to a power", "axis", "rank", "extents"))
"""The kinds of conditions that the shape of a case decides."""


def _words(low: int, high: int | None) -> str:
    return str(low) if low == high else f"{low} to {high}" if high is not None else f"{low} or more"


SPANS = {_words(*each): (each[0], each[1] or math.inf) for each in (*_SIZES, *_ROWS)}
"""The smallest and the largest extent for which each condition on an extent holds."""


@lru_cache(1 << 14)  # ops share most labels
def of_label(label: tuple[Feature, Any]) -> tuple[Condition, ...]:
    """Return the conditions that follow from a coverage label, or () if there are none."""
    kind, value = label
    if kind.kind in ("n", "rows", "extent"):
        return tuple(_of_extent(kind, value))
    if kind.kind == "axis":
        axis, rank = value
        where = "last" if axis == rank - 1 else "first" if axis == 0 else "between"
        return (kind, where), (Feature("rank"), str(rank))
    if kind.kind == "dtype" and kind.subject:
        own, _, main = value
        return ((kind, SAME if own == main else own),)
    if kind.kind == "alignment":
        even = "a" if value % _EVEN == 0 else "no"
        return ((Feature("address", kind.subject), f"{even} multiple of {_EVEN}"),)
    is_own = kind.kind in ("tail", "remainder", "tile", "memory", "big", "target")
    return () if is_own or (kind.kind == "recipe" and isinstance(value, tuple)) else (label,)


def _of_extent(kind: Feature, extent: int) -> Iterator[Condition]:
    if extent == 0:
        return  # no other condition holds for a case without elements
    yield kind, _words(*next(each for each in (_SIZES if kind == N else _ROWS) if extent <= (each[1] or extent)))
    if kind == N:
        left = ((m, extent % m) for m, wanted in _MODULI.items() if extent % m in wanted)
        yield from ((Feature("row remainder", operand=m), str(residue)) for m, residue in left)
        far = next((far for far in (0, 1, -1) if extent > 4 and (extent - far).bit_count() == 1), None)
        if far is not None:
            yield Feature("next to a power"), f"{far:+d}" if far else "0"


class Conditions:
    """The possible conditions of one op's cases, each as a bit of a number."""

    def __init__(self, op: str) -> None:
        sizes = [(N, n) for n in range(1, _SIZES[-1][0] + 1)] + [(ROWS, rows) for rows, _ in _ROWS]
        of_space = ((kind, value) for kind, values in space_of([anything(op)]).items() for value in values)
        labels = (*sizes, *((Feature("extents"), relation) for relation in RELATIONS), *of_space)
        self.all: Sequence[Condition] = tuple(dict.fromkeys(each for label in labels for each in of_label(label)))
        self.bits: Mapping[Condition, int] = {condition: 1 << place for place, condition in enumerate(self.all)}
        self._of_label: dict[Label, int] = {}

    def holding(self, labels: Iterable[Label]) -> int:
        """Return the bits of all conditions that hold for a case with these labels."""
        found, known = 0, self._of_label
        for label in labels:
            bits = known.get(label)
            if bits is None:
                bits = known[label] = sum(self.bits.get(condition, 0) for condition in of_label(label))
            found |= bits
        return found


@remembered(64)
def conditions_of(op: str) -> Conditions:
    """Return the conditions of an op."""
    return Conditions(op)


class Together:
    """The conditions that have held together: for the bit of each condition, the bits of all that ever held with it."""

    def __init__(self, beside: Mapping[int, int] | None = None) -> None:
        self.beside: dict[int, int] = dict(beside or {})

    def see(self, holding: int) -> None:
        """Record a case, given the bits of the conditions that hold for it."""
        left = holding
        while left:
            lowest = left & -left
            self.beside[lowest] = self.beside.get(lowest, 0) | holding
            left ^= lowest

    def add(self, later: Together) -> None:
        """Add the pairs that another record saw."""
        for bit, others in later.beside.items():
            self.beside[bit] = self.beside.get(bit, 0) | others

    def has(self, one: int, other: int) -> bool:
        """Whether two conditions, given as bits, have held together."""
        return bool(self.beside.get(one, 0) & other)

    def record(self, op: str) -> dict[str, Any]:
        """Return the pairs as JSON. The names of all conditions are included, since bits differ between versions."""
        named = list(map(label_words, conditions_of(op).all))
        return {"conditions": named, "beside": {str(bit.bit_length() - 1): f"{o:x}" for bit, o in self.beside.items()}}

    @classmethod
    def of_record(cls, op: str, record: Mapping[str, Any]) -> Together:
        """Return the pairs of a JSON record whose conditions still exist. Raise ValueError unless `record` made it."""
        try:
            known = {label_words(condition): bit for condition, bit in conditions_of(op).bits.items()}
            own = [known.get((kind, value), 0) for kind, value in record["conditions"]]
            beside = {own[int(place)]: int(others, 16) for place, others in record["beside"].items()}
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no record of conditions of {op}") from error
        named = {
            bit: sum(its for place, its in enumerate(own) if others >> place & 1) for bit, others in beside.items()
        }
        return cls({bit: others for bit, others in named.items() if bit})
