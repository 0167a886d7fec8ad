"""Conditions: what is certain of a failure that no simple rule fits, as where rounding decides whether it shows. One is
necessary, without which nothing fails; one may be sufficient, with which everything does. Between them it is luck."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from fuzz.triage.atoms import Columns, number_cost, word_cost
from fuzz.triage.conjunctions import Table, grown_of
from fuzz.triage.rule import Atom, Rule, Trait, Traits
from fuzz.triage.thresholds import plainest

_EDGE = 8
"""A limit lies where so many probes pass beyond the nearest failure as hold so many failures on this side of it: if it
went on as it does there, it would have failed by then (all but e^-8 of the time)."""
_MOST = 3
"""So many conditions are read at once."""
_TELLING, _FEWEST = 0.05, 12
"""A necessary condition rules out at least this share of what passes, and so many probes."""
_COVERED = 0.5
"""A sufficient one is worth reading where it holds of this share of the failures, in a search too."""
_TRIED = 6
"""From so many failures a sufficient one is looked for."""


@dataclass(frozen=True)
class Conditions:
    """What is certain, with the probes that say so."""

    necessary: Rule
    outside: int
    """So many probes have it not, and pass."""
    sufficient: Rule | None
    """Given the necessary one."""
    inside: int
    """So many probes have both, and fail."""

    def agree(self, traits: Traits, *, failed: bool) -> bool:
        """Whether neither is wrong of what has these traits."""
        if failed:
            return self.necessary.holds(traits)
        return not (self.sufficient is not None and self.necessary.holds(traits) and self.sufficient.holds(traits))

    def lines(self, fails: str, unless: str) -> Iterator[str]:
        """In the words of a user; what hides a failure hides it from the sufficient one."""
        if self.necessary.atoms:
            yield f"{fails} only when: {self.necessary} (none of {self.outside:,} other probes does)"
        if self.sufficient is not None and self.inside:
            both = Rule((*self.necessary.atoms, *self.sufficient.atoms))
            yield f"{fails} always when: {both}{unless} (all {self.inside:,} such probes do)"


def conditions_of(probes: Sequence[Traits], failed: Sequence[bool], known: int) -> Conditions:
    """Of probes of which some failed. A sufficient condition is found by the first `known` ones; the others, which are
    drawn as a search draws them, must not contradict it either, and may move its limits."""
    necessary = _necessary(probes, failed)
    places = [place for place, traits in enumerate(probes) if necessary.holds(traits)]
    some, bad = [probes[place] for place in places], [failed[place] for place in places]
    early = sum(place < known for place in places)
    settled = (_settled(rule, some, bad) for rule in _sufficient(some[:early], bad[:early]))
    confirmed = (rule for rule in settled if rule is not None and _is_confirmed(rule, some, bad, early))
    sufficient = next(confirmed, None)
    inside = sum(map(sufficient.holds, some)) if sufficient is not None else 0
    return Conditions(necessary, len(probes) - len(places), sufficient, inside)


def _is_confirmed(rule: Rule, probes: Sequence[Traits], failed: Sequence[bool], early: int) -> bool:
    """Whether all fails that it holds of, and that is enough of what fails, among the later probes too."""
    held = [rule.holds(traits) for traits in probes]
    is_pure = all(fails for holds, fails in zip(held, failed, strict=True) if holds)
    return is_pure and all(
        sum(held[part]) >= max(_COVERED * sum(failed[part]), 1) for part in (slice(early), slice(early, None))
    )


def _necessary(probes: Sequence[Traits], failed: Sequence[bool]) -> Rule:
    """Of conditions that all failures have, one after the other that which rules out most passes that are left."""
    atoms, left = list[Atom](), list(range(len(probes)))
    fewest = max(_TELLING * (len(failed) - sum(failed)), _FEWEST)
    while len(atoms) < _MOST:
        some, bad = [probes[place] for place in left], [failed[place] for place in left]
        columns = Columns(some)
        passes = sum(1 << place for place, fails in enumerate(bad) if not fails)
        ruled = [(atom, (passes & ~columns.held(atom)).bit_count()) for atom in _of_all(some, bad)]
        atom, most = max(ruled, key=lambda each: each[1] / each[0].cost, default=(None, 0))
        if atom is None or most < fewest:
            break
        atoms.append(atom)
        left = [place for place in left if atom.holds(probes[place])]
    return Rule(tuple(atoms))


def _of_all(probes: Sequence[Traits], failed: Sequence[bool]) -> Iterator[Atom]:
    """Conditions on one trait that hold of all failures, and would hardly do so by chance."""
    bad = [traits for traits, fails in zip(probes, failed, strict=True) if fails]
    for trait in bad[0]:
        if all(trait in traits for traits in bad):
            values = [(traits[trait], fails) for traits, fails in zip(probes, failed, strict=True) if trait in traits]
            is_number = all(not isinstance(value, str) for value, _ in values)
            if is_number and " mod " not in trait:
                yield from _within(trait, [(float(value), fails) for value, fails in values], values)
            else:
                yield from _among(trait, values)


def _among(trait: str, values: Sequence[tuple[Trait, bool]]) -> Iterator[Atom]:
    """That it is the word, or the residue, that it is of all failures, or none of some that it is of none."""
    bad = {value for value, fails in values if fails}
    others = [value for value, _ in values if value not in bad]
    failing = sum(fails for _, fails in values)
    if len(others) * failing < _EDGE * (len(values) - len(others)):
        return
    cost = number_cost(trait) if " mod " in trait else word_cost(trait)
    if len(bad) == 1:
        yield Atom(trait, "=", (*bad,), cost)
    elif trait.partition(" mod ")[1]:
        yield from [Atom(trait, "!=", (0,), cost)] * (0 not in bad)
    elif 0 < len({*others}) < _MOST:
        yield Atom(trait, "!=", tuple(sorted({*others}, key=str)), cost + 0.1 * len({*others}))


def _within(trait: str, values: Sequence[tuple[float, bool]], exact: Sequence[tuple[Trait, bool]]) -> Iterator[Atom]:
    """That it is at least, or at most, what it is of the outermost failures, with some room."""
    whole, cost = all(isinstance(value, int) for value, _ in exact), number_cost(trait)
    for relation, sign in ((">=", 1.0), ("<=", -1.0)):
        limit = _limit(sorted((sign * value, fails) for value, fails in values))
        if limit is not None:
            inner, outer = (sign * each for each in limit)
            number: Trait = int(outer + sign) if whole else plainest(inner, outer)
            yield Atom(trait, relation, (number,), cost + (0.1 if relation == ">=" else 0.2))


def _limit(ordered: Sequence[tuple[float, bool]]) -> tuple[float, float] | None:
    """Of numbers in order, with what fails, a pair: below the second one nothing fails, and the first is the next one
    above. None where too few are known below."""
    lowest = next(place for place, (_, hit) in enumerate(ordered) if hit)
    while lowest and ordered[lowest - 1][0] == ordered[lowest][0]:
        lowest -= 1
    hits = islice((place for place, (_, hit) in enumerate(ordered) if hit), _EDGE)
    place = lowest - (max(hits) + 1 - lowest)
    if place < 0:
        return None
    outer = ordered[place][0]
    return next(value for value, _ in ordered if value > outer), outer


def _sufficient(probes: Sequence[Traits], failed: Sequence[bool]) -> list[Rule]:
    """Conditions that nothing that passes has, and most of what fails, the best first."""
    if all(failed):
        return [Rule()] * any(failed)
    table = Table.of(probes, failed)
    bad = [place for place, fails in enumerate(failed) if fails]
    grown = (each for place in bad[:: -(-len(bad) // _TRIED) or 1] for each in grown_of(probes[place], table))
    pure = [each for each in grown if not each.passes and len(each.atoms) < _MOST]
    return [each.rule for each in sorted(pure, key=lambda each: (-each.failures, each.cost))[:_TRIED]]


def _settled(rule: Rule, probes: Sequence[Traits], failed: Sequence[bool]) -> Rule | None:
    """The rule, each of its limits so far from what passes that this would hardly be by chance; None where too few
    fail for that."""
    for atom in rule.atoms:
        if atom.relation in (">=", "<="):
            rest = Rule(tuple(each for each in rule.atoms if each is not atom))
            sign = 1.0 if atom.relation == "<=" else -1.0
            values = [
                (sign * float(traits[atom.trait]), not fails)
                for traits, fails in zip(probes, failed, strict=True)
                if atom.trait in traits and rest.holds(traits)
            ]
            limit = _limit(sorted(values)) if any(passes for _, passes in values) else None
            if limit is None:
                return None
            inner, outer = (sign * each for each in limit)
            number: Trait = int(outer) if isinstance(atom.values[0], int) else plainest(outer, inner)
            further = replace(atom, values=(outer if number == inner else number,))
            rule = Rule(tuple(further if each is atom else each for each in rule.atoms))
    return rule
