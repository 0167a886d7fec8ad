"""Thresholds: the limits in a rule, which lie between a failing probe and a passing one.

Bounds of a failure without a simple rule, for example one that only some roundings show: a necessary condition, without
which nothing fails, and a sufficient condition, with which everything fails. Between the two it is luck. No probe
contradicts either of them, and their thresholds leave some room; a rarer case may contradict them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fuzz.core.base.case import Case
from fuzz.core.base.feature import Feature
from fuzz.explain.rule.rule import Atom, Columns, Learned, Rule, Table, Trait, Traits, grown_of

_CLOSE = 0.01
"""The relative distance of a passing value beyond a threshold up to which the threshold is known well enough."""


_NEXT, _HARDLY, _FADED = 5, 2.0, 4.0
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


def missing_alone(atom: Atom, rule: Rule, tried: Tried) -> list[Case]:
    """Return the passing cases that meet all conditions of a rule except `atom`."""
    others = Rule(tuple(each for each in rule.atoms if each is not atom))
    passing = (each for each in tried if not each.failed and not atom.holds(each.traits))
    return [each.case for each in passing if others.holds(each.traits)]


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
    if atom.trait.topic.form == "power":
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
        _fades(trait, limit, failing)
        for trait, limit in limits
        if trait.topic.form == "count" and isinstance(limit, int)
    )


def _fades(trait: Feature, limit: int, failing: Tried) -> bool:
    ratios = [each.ratio for each in sorted(failing, key=lambda each: abs(float(each.traits[trait]) - limit))]
    edge = statistics.median(ratios[:_NEXT])
    return edge < _HARDLY and statistics.median(ratios) >= _FADED * edge


def is_rough(rule: Rule, tried: Tried) -> bool:
    """Whether a threshold is open, or the plainest number in its gap was not tried."""
    quantiles = [gap for atom, _, gap in gaps(rule, tried) if atom.trait.topic.form == "quantile"]
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


_EDGE = 8
"""The evidence that a limit needs, as an exponent: if failing went on beyond it at the rate of the nearest failures,
one of the passing probes there would have failed with probability 1 - e^-8."""
_MOST = 3
"""The most conditions that a person can read at once."""
_TELLING = 0.05
"""The least share of passing probes that a necessary condition must rule out; their number must also be at least what
any condition needs."""
_COVERED = 0.5
"""The least share of failures that a sufficient condition must cover to be worth reading, also among random cases."""
_CONFIRMED = 100
"""The least number of random cases that must meet a sufficient condition, all of which must fail."""
_TRIED = 6
"""The number of failures from which a sufficient condition is grown."""


@dataclass(frozen=True)
class RuleBounds:
    """A necessary and a sufficient condition, with the numbers of probes that support them."""

    necessary: Rule
    outside: int
    """The number of probes that do not meet the necessary condition; all of them pass."""
    sufficient: Rule | None
    """The sufficient condition for cases that meet the necessary one; None if there is none."""
    inside: int
    """The number of probes that meet both conditions; all of them fail."""

    def agree(self, traits: Traits, *, failed: bool) -> bool:
        """Whether a result with these traits contradicts neither condition."""
        if failed:
            return self.necessary.holds(traits)
        return not (self.sufficient is not None and self.necessary.holds(traits) and self.sufficient.holds(traits))


def bounds_of(probes: Sequence[Traits], failed: Sequence[bool], known: int) -> RuleBounds:
    """Return the bounds of the failing probes. A sufficient condition is found from the first `known` probes. The
    others are random cases of a search, so what is common among them is common in a search; they must not contradict
    the condition either."""
    necessary = _necessary(probes, failed, known)
    places = [place for place, traits in enumerate(probes) if necessary.holds(traits)]
    some, bad = [probes[place] for place in places], [failed[place] for place in places]
    early = sum(place < known for place in places)
    settled = (_settled(rule, some, bad) for rule in _sufficient(some[:early], bad[:early]))
    confirmed = (rule for rule in settled if rule is not None and _is_confirmed(rule, some, bad, early))
    sufficient = next(confirmed, None)
    inside = sum(map(sufficient.holds, some)) if sufficient is not None else 0
    return RuleBounds(necessary, len(probes) - len(places), sufficient, inside)


def _is_confirmed(rule: Rule, probes: Sequence[Traits], failed: Sequence[bool], early: int) -> bool:
    """Whether all probes that meet the rule fail, and are enough of the failures, among the later probes too."""
    held = [rule.holds(traits) for traits in probes]
    is_pure = all(fails for holds, fails in zip(held, failed, strict=True) if holds)
    covers = all(sum(held[part]) >= _COVERED * sum(failed[part]) for part in (slice(early), slice(early, None)))
    return is_pure and covers and sum(held[early:]) >= _CONFIRMED


def _necessary(probes: Sequence[Traits], failed: Sequence[bool], known: int) -> Rule:
    """Return conditions that all failures meet, each the one that rules out most of the passes still left."""
    atoms, left = list[Atom](), list(range(len(probes)))
    fewest = max(_TELLING * (len(failed) - sum(failed)), HELD)
    first = known if any(failed[known:]) else 0  # if no random case fails, only the probes near a failure remain
    while len(atoms) < _MOST:
        some = [_Seen(probes[place], failed[place], place >= first) for place in left]
        columns = Columns([each.traits for each in some])
        passes = sum(1 << place for place, each in enumerate(some) if not each.failed)
        ruled = [(atom, (passes & ~columns.held(atom)).bit_count()) for atom in _of_all(some)]
        atom, most = max(ruled, key=lambda each: each[1] / each[0].cost, default=(None, 0))
        if atom is None or most < fewest:
            break
        atoms.append(atom)
        left = [place for place in left if atom.holds(probes[place])]
    return Rule(tuple(atoms))


class _Seen(NamedTuple):
    """A probe, and whether it counts for how common something is."""

    traits: Traits
    failed: bool
    counts: bool


class _Number(NamedTuple):
    """A number of a probe, and whether a limit must keep it on its inner side (a hit)."""

    value: float
    hit: bool
    counts: bool = True


def _of_all(probes: Sequence[_Seen]) -> Iterator[Atom]:
    """Yield conditions on one trait that hold for all failures, and that would hardly do so by chance."""
    bad = [each.traits for each in probes if each.failed]
    for trait in bad[0]:
        if all(trait in traits for traits in bad):
            having = [each for each in probes if trait in each.traits]
            if trait.topic.form != "residue" and not any(isinstance(each.traits[trait], str) for each in having):
                yield from _within(trait, having)
            else:
                yield from _among(trait, having)


def _among(trait: Feature, probes: Sequence[_Seen]) -> Iterator[Atom]:
    """Yield conditions on the words or residues of a trait: that it equals the only one that failures have, or that it
    differs from those that no failure has."""
    bad = {each.traits[trait] for each in probes if each.failed}
    if bad == {"no"} and trait.hides:  # a NaN or an infinity hides only what fails in its own row
        return
    counted = [each for each in probes if each.counts]
    without = sum(each.traits[trait] not in bad for each in counted)
    if without * sum(each.failed for each in counted) < _EDGE * (len(counted) - without):
        return
    others = sorted({each.traits[trait] for each in probes} - bad, key=str)
    if len(bad) == 1:
        yield Atom(trait, "=", (*bad,), trait.cost)
    elif trait.topic.form == "residue":
        yield from [Atom(trait, "!=", (0,), trait.cost)] * (0 not in bad)
    elif len(others) < _MOST:
        yield Atom(trait, "!=", tuple(others), trait.cost + 0.1 * len(others))


def _within(trait: Feature, probes: Sequence[_Seen]) -> Iterator[Atom]:
    """Yield conditions that a number is at least, or at most, as large as in the outermost failures, with some room."""
    whole, cost = all(isinstance(each.traits[trait], int) for each in probes), trait.cost
    for relation, sign in ((">=", 1.0), ("<=", -1.0)):
        numbers = sorted(_Number(sign * float(each.traits[trait]), each.failed, each.counts) for each in probes)
        limit = _limit(numbers)
        if limit is not None:
            inner, outer = (sign * each for each in limit)
            number: Trait = int(outer + sign) if whole else plainest(inner, outer)
            yield Atom(trait, relation, (number,), cost + (0.1 if relation == ">=" else 0.2))


def _limit(ordered: Sequence[_Number]) -> tuple[float, float] | None:
    """Return two neighbouring numbers, inner and outer, between which a limit may lie; no hit is below them. So many
    numbers lie between the outer one and the first hit that one would probably be a hit if hits went on at their rate.
    Return None if too few numbers are known below."""
    lowest = next(each.value for each in ordered if each.hit)
    inside = [each.hit for each in ordered if each.counts and each.value >= lowest]
    outside = [each.value for each in ordered if each.counts and each.value < lowest]
    hits = [place for place, hit in enumerate(inside, 1) if hit][:_EDGE]
    room = _room(len(hits) / (hits[-1] + 1)) if hits else len(outside) + 1
    if room > len(outside):
        return None
    outer = outside[-room]
    return next(each.value for each in ordered if each.value > outer), outer


def _room(share: float) -> int:
    """Return how many tries in a row all pass with a probability of only e^-8, if a share `share` fails."""
    return math.ceil(-_EDGE / math.log1p(-share))


def _sufficient(probes: Sequence[Traits], failed: Sequence[bool]) -> list[Rule]:
    """Return conditions that most failing probes meet and no passing one does, the best first."""
    if all(failed):
        return [Rule()] * any(failed)
    table = Table.of(probes, failed)
    bad = [place for place, fails in enumerate(failed) if fails]
    grown = (each for place in bad[:: -(-len(bad) // _TRIED) or 1] for each in grown_of(probes[place], table))
    pure = [each for each in grown if not each.passes and len(each.atoms) < _MOST]
    return [each.rule for each in sorted(pure, key=lambda each: (-each.failures, each.cost))[:_TRIED]]


def _settled(rule: Rule, probes: Sequence[Traits], failed: Sequence[bool]) -> Rule | None:
    """Return the rule with its limits moved away from passing probes, so far that this is hardly chance; None if too
    few failures are left for that."""
    for atom in rule.atoms:
        if atom.relation in (">=", "<="):
            rest = Rule(tuple(each for each in rule.atoms if each is not atom))
            sign = 1.0 if atom.relation == "<=" else -1.0
            numbers = sorted(
                _Number(sign * float(traits[atom.trait]), not fails)
                for traits, fails in zip(probes, failed, strict=True)
                if atom.trait in traits and rest.holds(traits)
            )
            limit = _limit(numbers) if any(each.hit for each in numbers) else None
            if limit is None:
                return None
            inner, outer = (sign * each for each in limit)
            number: Trait = int(outer) if isinstance(atom.values[0], int) else plainest(outer, inner)
            further = replace(atom, values=(outer if number == inner else number,))
            rule = Rule(tuple(further if each is atom else each for each in rule.atoms))
    return rule
