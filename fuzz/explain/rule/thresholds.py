"""Thresholds: the limits in a rule, which lie between a failing probe and a passing one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from fuzz.core.base.case import Case
from fuzz.core.base.feature import Feature
from fuzz.explain.rule.rule import Atom, Learned, Rule, Traits

_CLOSE = 0.01
"""The relative distance of a passing value beyond a threshold up to which the threshold is known well enough."""


_EDGE, _HARDLY, _FADED = 5, 2.0, 4.0
"""The number of failures next to a threshold that are looked at; the err/budget below which their median must lie; and
how many times as large the median of all failures must be. Then the error fades there. Chosen, not measured."""
HELD = 20
"""The number of passing cases that must miss a condition alone for it to be stated: with fewer, a condition that
happens to go with it is as likely. Chosen, not measured."""


class Probed(NamedTuple):
    """A probe and its result."""

    traits: Traits
    failed: bool
    case: Case
    ratio: float = math.inf
    """The err/budget of a failure by wrong values."""


Tried = Sequence[Probed]


def held_against(atom: Atom, rule: Rule, tried: Tried) -> int:
    """Return the number of passing cases that meet all conditions of a rule except `atom`."""
    others = Rule(tuple(each for each in rule.atoms if each is not atom))
    return sum(not each.failed and others.holds(each.traits) and not atom.holds(each.traits) for each in tried)


def gaps(rule: Rule, tried: Tried) -> Iterator[tuple[Atom, Rule, tuple[float, float]]]:
    """Yield each threshold with the other conditions, its limit, and the nearest passing value beyond."""
    for atom in rule.atoms:
        if atom.relation in (">=", "<="):
            rest = Rule(tuple(each for each in rule.atoms if each is not atom))
            limit, up = float(atom.values[0]), atom.relation == "<="
            others = (each.traits for each in tried if not each.failed and rest.holds(each.traits))
            passing = (traits[atom.trait] for traits in others if atom.trait in traits)
            beyond = [float(value) for value in passing if (float(value) > limit if up else float(value) < limit)]
            if beyond:
                yield atom, rest, (limit, min(beyond) if up else max(beyond))


def is_close(atom: Atom, gap: tuple[float, float]) -> bool:
    """Return whether the gap is so small that the threshold can hardly be elsewhere."""
    limit, nearest = gap
    if atom.trait.row.form == "power":
        return abs(limit - nearest) <= 1
    return limit * nearest > 0 and abs(nearest / limit - 1) <= _CLOSE


def is_open(rule: Rule, tried: Tried) -> bool:
    """Return whether the nearest passing probe lies far from a threshold on values, so that its place is unknown."""
    return any(atom.trait.hides and not is_close(atom, gap) for atom, _, gap in gaps(rule, tried))


def fades(rule: Rule, tried: Tried) -> bool:
    """Return whether the error fades towards a threshold of an extent, until it is within the budget. Then rounding
    decides the exact place."""
    failing = [each for each in tried if each.failed and rule.holds(each.traits)]
    limits = [(atom.trait, atom.values[0]) for atom in rule.atoms if atom.relation in (">=", "<=")]
    return any(
        _fades(trait, limit, failing) for trait, limit in limits if trait.row.form == "count" and isinstance(limit, int)
    )


def _fades(trait: Feature, limit: int, failing: Tried) -> bool:
    ratios = [each.ratio for each in sorted(failing, key=lambda each: abs(float(each.traits[trait]) - limit))]
    edge = statistics.median(ratios[:_EDGE])
    return edge < _HARDLY and statistics.median(ratios) >= _FADED * edge


def is_rough(rule: Rule, tried: Tried) -> bool:
    """Whether a threshold is open, or the plainest number in its gap was not tried."""
    quantiles = [gap for atom, _, gap in gaps(rule, tried) if atom.trait.row.form == "quantile"]
    return is_open(rule, tried) or any(plainest(*gap) not in gap for gap in quantiles)


def plainly(learned: Learned, tried: Tried) -> Learned:
    """Return the same rule with each limit that is a real number replaced by the plainest number in its gap."""
    rule, *others = (_plainly(rule, tried) for rule in (learned.rule, *learned.others))
    return replace(learned, rule=rule, others=tuple(others))


def _plainly(rule: Rule, tried: Tried) -> Rule:
    changed = {
        atom: _at(atom, plainest(*gap), gap[1])
        for atom, _, gap in gaps(rule, tried)
        if isinstance(atom.values[0], float) and is_close(atom, gap)
    }
    return replace(rule, atoms=tuple(changed.get(atom, atom) for atom in rule.atoms))


def _at(atom: Atom, limit: float, beyond: float) -> Atom:
    """Return the atom with this limit; if the limit is known to pass, the relation excludes it."""
    return replace(atom, values=(limit,), relation=atom.relation.rstrip("=") if limit == beyond else atom.relation)


def plainest(limit: float, beyond: float) -> float:
    """Return the number between the two with the fewest digits; a power of two is preferred."""
    low, high = sorted((limit, beyond))
    middle = limit / 2 + beyond / 2
    if low * high > 0 and math.isfinite(middle):
        power = math.copysign(2.0 ** round(math.log2(abs(middle))), middle)
        if low <= power <= high:
            return power
    for digits in range(17):
        for number in (middle, limit):
            if low <= float(f"{number:.{digits}e}") <= high:
                return float(f"{number:.{digits}e}")
    return limit
