"""Atoms: conditions on one trait that hold for a given failure and separate some probes from others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import accumulate, pairwise
from math import inf
from operator import or_

from fuzz.core.base.feature import Feature
from fuzz.explain.rule.rule import Atom, Trait, Traits

_LIMITS = 6
"""The most thresholds of a trait that are tried, the nearest to the given failure first."""
_MOST_BANDS = 5
"""The most separate ranges of failing values that make one condition."""
_MOST_RESIDUES = 4
_TOLD = (0.0, 1.0, -1.0, inf, -inf)
"""Real numbers that can be the reason of a failure by themselves."""

Number = float | int


class Columns:
    """The probes by trait: for each value a bit mask of the probes that have it. So an atom is evaluated once for each
    value, and not for each probe."""

    def __init__(self, probes: Sequence[Traits]) -> None:
        self._columns: dict[Feature, dict[Trait, int]] = {}
        self._held: dict[Atom, int] = {}
        self._sums: dict[Feature, tuple[list[Number], list[int]]] = {}
        """By trait: its numbers in order, and at index k the mask of the probes with one of the first k numbers."""
        for place, traits in enumerate(probes):
            for trait, value in traits.items():
                column = self._columns.setdefault(trait, {})
                column[value] = column.get(value, 0) | 1 << place

    def values(self, trait: Feature, among: int) -> set[Trait]:
        """Return the values of a trait that occur among these probes, given as a mask."""
        return {value for value, bits in self._columns[trait].items() if bits & among}

    def held(self, atom: Atom) -> int:
        """Return the mask of the probes for which an atom holds."""
        if atom not in self._held:
            limit = atom.values[0]
            if atom.relation in (">=", "<=", ">", "<") and not isinstance(limit, str):
                self._held[atom] = self._beyond(atom.trait, atom.relation, limit)
            else:
                column = self._columns.get(atom.trait, {})
                holding = (bits for value, bits in column.items() if atom.holds({atom.trait: value}))
                self._held[atom] = reduce(or_, holding, 0)
        return self._held[atom]

    def _beyond(self, trait: Feature, relation: str, limit: Number) -> int:
        """Return the mask of the probes whose number lies on that side of a limit."""
        if trait not in self._sums:
            column = self._columns.get(trait, {})
            numbers = sorted(value for value in column if not isinstance(value, str))
            self._sums[trait] = numbers, [0, *accumulate((column[value] for value in numbers), or_)]
        numbers, below = self._sums[trait]
        place = bisect_left(numbers, limit) if relation in (">=", "<") else bisect_right(numbers, limit)
        return below[-1] & ~below[place] if relation.startswith(">") else below[place]


def atoms_of(own: Traits, columns: Columns, failures: int, passes: int) -> Iterator[Atom]:
    """Yield the atoms that hold for one failure; the masks give all failing probes and all passing ones."""
    for trait, value in own.items():
        failing, passing = columns.values(trait, failures), columns.values(trait, passes)
        if isinstance(value, str):
            yield from _of_word(trait, value, {str(v) for v in failing}, {str(v) for v in passing})
        elif trait.row.form == "residue":
            yield from _of_residue(trait, value, _numbers(failing), _numbers(passing))
        else:
            yield from _of_number(trait, value, _numbers(failing), _numbers(passing))


def _of_word(trait: Feature, value: str, bad: set[str], good: set[str]) -> Iterator[Atom]:
    cost = trait.cost
    yield Atom(trait, "=", (value,), cost)
    for other in sorted((bad | good) - {value}):
        yield Atom(trait, "!=", (other,), cost + 0.1)
    # Some words always fail, and the others never do.
    if 1 < len(bad) <= 4 and not bad & good:
        yield Atom(trait, "in", tuple(sorted(bad)), cost + 0.4)
    if 1 < len(good) <= 4 and not bad & good:
        yield Atom(trait, "!=", tuple(sorted(good)), cost + 0.4)


def _of_residue(trait: Feature, value: Number, bad: set[Number], good: set[Number]) -> Iterator[Atom]:
    cost = trait.cost
    yield Atom(trait, "=", (value,), cost + 0.05)
    if value != 0:
        yield Atom(trait, "!=", (0,), cost)
    if 1 < len(bad) <= _MOST_RESIDUES:
        yield Atom(trait, "in", tuple(sorted(bad)), cost + 0.1 * len(bad))
    lower, upper = _limits(value, bad, good)
    yield from (Atom(trait, ">=", (limit,), cost + 0.4) for limit in lower if limit > 1)
    yield from (Atom(trait, "<=", (limit,), cost + 0.4) for limit in upper if limit > 0)


def _of_number(trait: Feature, value: Number, bad: set[Number], good: set[Number]) -> Iterator[Atom]:
    cost = trait.cost
    # An unusual number is a coincidence; so is one that several extents have at the same time.
    if trait.row.form != "size" and (trait.row.form != "quantile" or value in _TOLD):
        yield Atom(trait, "=", (value,), cost + 0.3)
    if value != 0 and 0 in good:
        yield Atom(trait, "!=", (0,), cost + 0.15)
    lower, upper = _limits(value, bad, good)
    yield from (Atom(trait, ">=", (limit,), cost + 0.1) for limit in lower)
    yield from (Atom(trait, "<=", (limit,), cost + 0.2) for limit in upper)
    apart = trait.row.form not in ("power", "quantile", "position", "size")
    if apart and not bad & good:  # failing sizes in separate ranges may have another condition in common
        bands = _bands(bad, good)
        if 1 < len(bands) <= _MOST_BANDS:
            yield Atom(trait, "within", tuple(end for band in bands for end in band), cost + 0.3 * len(bands))


def _bands(bad: set[Number], good: set[Number]) -> list[tuple[Number, Number]]:
    """Return the ranges of failing values that have no passing value inside."""
    bands: list[tuple[Number, Number]] = []
    before = False
    for value in sorted(bad | good):
        if value in bad:
            bands = [*bands[:-1], (bands[-1][0], value)] if before else [*bands, (value, value)]
        before = value in bad
    return bands


def _limits(value: Number, bad: set[Number], good: set[Number]) -> tuple[list[Number], list[Number]]:
    """Return failing values that are next to passing ones: those below the given value, nearest last, and those
    above."""
    known = sorted(bad | good)
    lower = [high for low, high in pairwise(known) if high in bad and low in good and high <= value]
    upper = [low for low, high in pairwise(known) if low in bad and high in good and low >= value]
    lowest, highest = min(bad), max(bad)
    lower = list(dict.fromkeys([*lower[-_LIMITS:], *([lowest] if known[0] < lowest <= value else [])]))
    upper = list(dict.fromkeys([*upper[:_LIMITS], *([highest] if known[-1] > highest >= value else [])]))
    return lower, upper


def _numbers(values: set[Trait]) -> set[Number]:
    return {value for value in values if not isinstance(value, str)}
