"""Covering: a rule for the failures that are like a given one, where several causes fail side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fuzz.triage.rule import Atom, Learned, Rule, Trait, Traits, learn, number_cost, word_cost
from fuzz.triage.traits import is_about_values

_WIDTH = 24
"""This many conjunctions of each length are kept."""
_MOST_ATOMS = 4
_LIMITS = 6
"""This many thresholds of one trait are tried, those next to the given failure first."""
_MOST_CAUSES = 3
_LEAST_FAILURES = 3
"""A second cause must explain at least this many failures: with fewer, any coincidence would be one."""


def explained_by(probes: Sequence[Traits], failed: Sequence[bool], given: int = 0) -> Learned:
    """The rule of the failure `probes[given]`, and rules of other failures as its alternatives.

    One rule for all failures is preferred. Where there is none, each cause has one that no pass contradicts.
    """
    simple = learn(probes, failed)
    passes = [traits for traits, bad in zip(probes, failed, strict=True) if not bad]
    left = [traits for traits, bad in zip(probes, failed, strict=True) if bad]
    own = own_traits = probes[given]
    rules: list[Rule] = []
    while left and len(rules) < _MOST_CAUSES:
        rule, covered = _cause(own, left, passes)
        if rule is None or (rules and len(covered) < _LEAST_FAILURES):
            break
        rules.append(rule)
        left = [traits for place, traits in enumerate(left) if place not in covered]
        own = left[0] if left else own
    stated = [simple, *([Learned(rules[0], 0, 0, tuple(rules[1:]))] if rules else [])]
    stated += [Learned(rule, 0, 0, each.others) for each in stated for rule in _shorter(each.rule)]
    counted = [replace(each, agreeing=_agreeing(each, probes, failed), probes=len(probes)) for each in stated]
    return max([*counted, _nearest(own_traits, probes, failed)], key=_worth)


def loosened(rule: Rule, probes: Sequence[Traits], failed: Sequence[bool]) -> Rule:
    """The rule without the conditions that only say what hides the failure now and then, such as a huge eps.

    Where exactly they hide it depends on everything: to tell whether a failure is this one they are no use.
    """

    def pure(atoms: tuple[Atom, ...]) -> float:
        held = [bad for traits, bad in zip(probes, failed, strict=True) if Rule(atoms).holds(traits)]
        return sum(held) / max(len(held), 1)

    atoms = rule.atoms
    while hiding := [atom for atom in atoms if is_about_values(atom.trait)]:
        best = max((tuple(atom for atom in atoms if atom is not left_out) for left_out in hiding), key=pure)
        if pure(best) < _PURE:
            break
        atoms = best
    return Rule(atoms)


_PURE = 0.85
"""Of the probes that a loosened rule holds of, at least this share must fail."""
_ATOM_WORTH, _RULE_WORTH = 0.0025, 0.01
"""The shares of all probes by which more must agree for another condition, and for another rule, to be worth
reading."""


def _shorter(rule: Rule) -> list[Rule]:
    """The rule without one of its conditions: some only say what hides the failure now and then."""
    return [Rule(tuple(atom for atom in rule.atoms if atom is not left_out)) for left_out in rule.atoms]


def _agreeing(learned: Learned, probes: Sequence[Traits], failed: Sequence[bool]) -> int:
    return sum(learned.holds(traits) == bad for traits, bad in zip(probes, failed, strict=True))


def _worth(learned: Learned) -> float:
    rules = (learned.rule, *learned.others)
    reading = _ATOM_WORTH * sum(len(rule.atoms) for rule in rules) + _RULE_WORTH * (len(rules) - 1)
    return learned.agreeing / learned.probes - reading


def _nearest(own: Traits, probes: Sequence[Traits], failed: Sequence[bool]) -> Learned:
    """One rule of the given failure that errs least, either way: near a threshold rounding decides."""
    failures = [traits for traits, bad in zip(probes, failed, strict=True) if bad]
    passes = [traits for traits, bad in zip(probes, failed, strict=True) if not bad]

    def agreeing(grown: _Grown) -> int:
        return grown.failures.bit_count() + len(passes) - grown.passes.bit_count()

    tried = [Learned(Rule(each.atoms), agreeing(each), len(probes)) for each in _grown(own, failures, passes)]
    return max(tried, key=_worth)


def _cause(own: Traits, failures: Sequence[Traits], passes: Sequence[Traits]) -> tuple[Rule | None, set[int]]:
    """The simplest rule of the most failures, among them `own`, that holds of no pass; and which failures these are."""
    pure = [grown for grown in _grown(own, failures, passes) if not grown.passes]
    if not pure:
        return None, set()
    found = Rule(max(pure, key=lambda grown: (grown.failures.bit_count(), -grown.cost)).atoms)
    covered = {place for place, traits in enumerate(failures) if found.holds(traits)}
    # The same failures may have a simpler or a narrower statement, now that it is known which belong together.
    together = [failures[place] for place in sorted(covered)]
    stated = learn([*together, *passes], [True] * len(together) + [False] * len(passes))
    if stated.exact:
        found = stated.rule
        covered = {place for place, traits in enumerate(failures) if found.holds(traits)}
    return found, covered


@dataclass(frozen=True)
class _Grown:
    """A conjunction with what it holds of, as bits."""

    atoms: tuple[Atom, ...]
    failures: int
    passes: int

    @property
    def cost(self) -> float:
        return sum(atom.cost for atom in self.atoms)


def _grown(own: Traits, failures: Sequence[Traits], passes: Sequence[Traits]) -> list[_Grown]:
    """Conjunctions true of the given failure that are worth a look."""
    candidates = _candidates(own, failures, passes)
    beam = [_Grown((), (1 << len(failures)) - 1, (1 << len(passes)) - 1)]
    found = list(beam)
    for _ in range(_MOST_ATOMS):
        longer: dict[tuple[int, int], _Grown] = {}
        for kept in beam:
            for atom in candidates:
                grown = _Grown((*kept.atoms, *atom.atoms), kept.failures & atom.failures, kept.passes & atom.passes)
                key = grown.failures, grown.passes
                if grown.passes != kept.passes and (key not in longer or grown.cost < longer[key].cost):
                    longer[key] = grown
        beam = _widest(list(longer.values()), len(failures), len(passes))
        found += beam
        # What is pure already may be none of the widest.
        found += sorted((g for g in longer.values() if not g.passes), key=lambda g: -g.failures.bit_count())[:_WIDTH]
    return found


def _widest(grown: Sequence[_Grown], failures: int, passes: int) -> list[_Grown]:
    """Those that promise most: by what they separate, and by how pure they are."""

    def separated(each: _Grown) -> float:
        return each.failures.bit_count() / failures - each.passes.bit_count() / max(passes, 1) - each.cost / 100

    def pure(each: _Grown) -> float:
        bad = each.failures.bit_count()
        return (bad + 1) / (bad + each.passes.bit_count() + 2) - each.cost / 100

    chosen = sorted(grown, key=separated, reverse=True)[:_WIDTH] + sorted(grown, key=pure, reverse=True)[:_WIDTH]
    return list(dict.fromkeys(chosen))


def _candidates(own: Traits, failures: Sequence[Traits], passes: Sequence[Traits]) -> list[_Grown]:
    """Atoms that are true of the given failure; of those that hold of the same probes the cheapest."""
    kept: dict[tuple[int, int], _Grown] = {}
    for atom in _atoms(own, failures, passes):
        grown = _Grown((atom,), _bits(atom, failures), _bits(atom, passes))
        key = grown.failures, grown.passes
        if grown.failures and (key not in kept or grown.cost < kept[key].cost):
            kept[key] = grown
    return list(kept.values())


def _bits(atom: Atom, probes: Sequence[Traits]) -> int:
    return sum(1 << place for place, traits in enumerate(probes) if atom.holds(traits))


def _atoms(own: Traits, failures: Sequence[Traits], passes: Sequence[Traits]) -> Iterator[Atom]:
    for trait, value in own.items():
        if isinstance(value, str):
            yield Atom(trait, "=", (value,), word_cost(trait))
            others = {traits.get(trait) for traits in passes} - {value, None}
            yield from (Atom(trait, "!=", (str(other),), word_cost(trait) + 0.1) for other in sorted(map(str, others)))
        else:
            yield from _number_atoms(trait, value, failures, passes)


def _number_atoms(
    trait: str, value: float | int, failures: Sequence[Traits], passes: Sequence[Traits]
) -> Iterator[Atom]:
    cost = number_cost(trait)
    if " mod " in trait:
        yield Atom(trait, "=", (value,), cost + 0.05)
        if value != 0:
            yield Atom(trait, "!=", (0,), cost)
    bad, good = _numbers(trait, failures), _numbers(trait, passes)
    if not bad or (" mod " in trait and not trait.endswith("lanes")):
        return
    yield Atom(trait, "=", (value,), cost + 0.3)
    lower, upper = _limits(value, bad, good)
    yield from (Atom(trait, ">=", (limit,), cost + 0.1) for limit in lower)
    yield from (Atom(trait, "<=", (limit,), cost + 0.2) for limit in upper)


def _numbers(trait: str, probes: Sequence[Traits]) -> Mapping[float | int, int]:
    counted: dict[float | int, int] = {}
    for traits in probes:
        value: Trait | None = traits.get(trait)
        if value is not None and not isinstance(value, str):
            counted[value] = counted.get(value, 0) + 1
    return counted


def _limits(
    value: float | int, bad: Mapping[float | int, int], good: Mapping[float | int, int]
) -> tuple[list[float | int], list[float | int]]:
    """Failing values with passing ones next to them: below the given one, nearest first, and above."""
    known = sorted({*bad, *good})
    lower = [high for low, high in pairwise(known) if high in bad and low in good and high <= value]
    upper = [low for low, high in pairwise(known) if low in bad and high in good and low >= value]
    lowest, highest = min(bad), max(bad)
    lower = list(dict.fromkeys([*lower[-_LIMITS:], *([lowest] if min(known) < lowest <= value else [])]))
    upper = list(dict.fromkeys([*upper[:_LIMITS], *([highest] if max(known) > highest >= value else [])]))
    return lower, upper
