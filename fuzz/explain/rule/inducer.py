"""The inducer finds the shortest rule that holds for a given failure and agrees with the probes, and its rivals: other
rules that agree as well. A rule is a conjunction of atoms, or several alternatives if there are several causes. Probes
for which a rule and its rivals differ are worth running: see `fuzz.explain.evidence.refutation`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from heapq import nlargest
from itertools import zip_longest
from operator import and_, or_

from fuzz.core.base.feature import Feature
from fuzz.explain.rule.rule import (
    ATOM_WORTH,
    THERE,
    Atom,
    Grown,
    Learned,
    Rule,
    Table,
    Traits,
    atoms_of,
    first,
    grown_of,
)

_MOST_RULES = 3
_LEAST_FAILURES = 3
"""The fewest failures that a further alternative must explain: with fewer, any coincidence would make one."""
_RULE_WORTH = 0.01
"""The share of all probes that a further alternative must classify better to be worth reading."""
_LEFT = 0.25
"""If alternatives leave at most this share of the exceptions to one rule, the exceptions had a cause of their own."""
_SPLIT, _LEAST_PASSES = 8, 6
"""The most conditions that are tried to split off passing probes inside a rule, and the fewest such probes for which
this is tried. Chosen, not measured."""
_AGAINST = 8
"""The number of failures that one pass inside an alternative outweighs. Whatever hides a failure now and then makes
some probes pass inside a true rule, so a rule without any would be too narrow. Chosen, not measured."""
_MOST_RIVALS = 64
_PURE_DRAWN, _FEWEST = 0.5, 4
"""The same among cases of a search, whose values hide more; and the fewest such cases that count. Chosen."""
_PURE = 0.7
"""The least share of failures among the probes inside a rule after conditions were dropped."""


@dataclass(frozen=True)
class Induced:
    """A rule, and its rivals, which could as well be true."""

    learned: Learned
    rivals: tuple[Rule, ...]
    """Other rules of the given failure that are wrong about no more probes, or hardly more, the likeliest first."""


def learn(probes: Sequence[Traits], failed: Sequence[bool], given: int | None = None) -> Learned:
    """Return the rule of the given failure, by default the first. Raises ValueError if no probe failed."""
    return induce(probes, failed, given).learned


def induce(probes: Sequence[Traits], failed: Sequence[bool], given: int | None = None) -> Induced:
    """Return the rule of the given failure with its rivals. One rule for all failures is preferred to several
    alternatives, unless the alternatives are worth their length, or are wrong about hardly any probe: another cause of
    failures may be rare. Raises ValueError if no probe failed."""
    if not any(failed):
        raise ValueError("nothing failed, so there is nothing to state")
    own = probes[failed.index(True) if given is None else given]
    table = Table.of(probes, failed)
    everything = list(grown_of(own, table))
    best = max(everything, key=table.worth)
    single = Learned(best.rule, table.agreeing(best), len(probes))
    if _is_enough(single, table.failures.bit_count() - best.failures):
        covering = _best([single, *_split(best, everything, probes, table)])
    else:
        covering = _best([single, *_coverings(everything, own, probes, table)])
    if covering.others:
        rivals = zip_longest(*_rivals_of_each((covering.rule, *covering.others), probes, table))
        return Induced(covering, tuple(rule for each in rivals for rule in each if rule is not None)[:_MOST_RIVALS])
    return Induced(single, tuple(_rivals(best, everything, table)))


Results = tuple[Sequence[Traits], Sequence[bool]]
"""The traits of probes, and whether each failed."""


def loosened(rule: Rule, near: Results, drawn: Results = ((), ())) -> Rule:
    """Return the rule without the conditions that only tell what hides the failure now and then, such as a huge eps.
    The exact limits of hiding depend on everything else, so they do not help to recognise the failure. Such a condition
    stays if without it many cases that a search has `drawn` would be covered and pass: the probes `near` a failure may
    have its values all alike."""

    def share(atoms: tuple[Atom, ...], of: Results, least: int = 1) -> float:
        held = [bad for traits, bad in zip(*of, strict=True) if Rule(atoms).holds(traits)]
        return sum(held) / len(held) if len(held) >= least else 1.0

    def pure(atoms: tuple[Atom, ...]) -> float:
        return min(share(atoms, near), share(atoms, drawn, _FEWEST) / _PURE_DRAWN * _PURE)

    def without(left_out: Atom) -> tuple[Atom, ...]:
        """Return the atoms without `left_out`. If it was about the values of a tensor, an atom that the tensor is given
        takes its place."""
        name = Feature("presence", left_out.trait.tensor)
        there = [Atom(name, "=", (THERE,), 1.0)] if any(traits.get(name) == THERE for traits in near[0]) else []
        return (*there, *(atom for atom in atoms if atom is not left_out and atom not in there))

    atoms = rule.atoms
    while hiding := [atom for atom in atoms if atom.hides]:
        best = max(map(without, hiding), key=pure)
        if pure(best) < _PURE:
            break
        atoms = best
    return Rule(atoms)


def _worth(learned: Learned) -> float:
    rules = (learned.rule, *learned.others)
    reading = ATOM_WORTH * sum(rule.size for rule in rules) + _RULE_WORTH * (len(rules) - 1)
    return learned.agreeing / learned.probes - reading


def _is_enough(single: Learned, missed: int) -> bool:
    """Return whether no alternatives can be better than one rule that misses this many failures: it is wrong about
    fewer probes than an alternative costs, and its exceptions are not mostly missed failures."""
    is_rarely_wrong = single.agreeing > single.probes * (1 - _RULE_WORTH - ATOM_WORTH)
    return is_rarely_wrong and missed < max(_LEAST_FAILURES, (1 - _LEFT) * single.exceptions)


def _best(stated: Sequence[Learned]) -> Learned:
    """Return the rule of most worth, unless another leaves so few exceptions that it must know a further cause."""
    best, fewest = max(stated, key=_worth), min(stated, key=lambda each: (each.exceptions, -_worth(each)))
    return fewest if fewest.exceptions <= _LEFT * best.exceptions else best


def _coverings(everything: Sequence[Grown], own: Traits, probes: Sequence[Traits], table: Table) -> Iterator[Learned]:
    """Yield alternatives for failures with several causes. The first rule covers the given failure and hardly any
    passing probe. For the remaining failures there are several choices: the best rule, the first rule with a condition
    exchanged, or another rule that covers hardly any passing probe."""
    rules: list[Rule] = []
    left, grown = table, everything
    while len(rules) < _MOST_RULES:
        if rules:
            yield _learned([*rules, max(grown, key=left.worth).rule], table)
            yield _learned([*rules, max(_other_cause(rules[-1], grown, left), key=_weight).rule], table)
        found = max(grown, key=_weight)
        if found.failures < (_LEAST_FAILURES if rules else 1) or found.failures <= _AGAINST * found.passes:
            return
        rules.append(_narrowed(found, own, left))
        yield _learned(rules, table)
        rest = left.failures & ~_held(rules[-1], table)
        if not rest:
            return
        left, own = left.among(rest), probes[first(rest)]
        grown = list(grown_of(own, left))


def _split(best: Grown, everything: Sequence[Grown], probes: Sequence[Traits], table: Table) -> Iterator[Learned]:
    """Yield the rule split in two by further conditions that leave out most of the passing probes inside it."""
    failing, passing = best.held & table.failures, best.held & table.passes

    def closest(grown: Iterable[Grown], failures: int) -> list[Grown]:
        some = (each for each in grown if (each.held & passing).bit_count() <= _LEFT * passing.bit_count())
        return nlargest(_SPLIT, some, lambda each: ((each.held & failures).bit_count(), -each.cost))

    enough = passing.bit_count() >= _LEAST_PASSES
    for one in closest((each for each in everything if len(each.atoms) == 1), failing) if enough else ():
        if rest := failing & ~one.held:
            atoms = atoms_of(probes[first(rest)], table.columns, rest, table.passes)
            singles = (table.grown((atom,), atom.cost, table.columns.held(atom)) for atom in atoms)
            for other in closest(singles, rest)[:1]:
                both = (table.grown((*best.atoms, *each.atoms), 0.0, each.held) for each in (one, other))
                yield _learned([each.rule for each in both], table)


def _weight(grown: Grown) -> tuple[int, float]:
    """Return a sort key: the failures minus the weighted passes; of equals the cheaper is better."""
    return grown.failures - _AGAINST * grown.passes, -grown.cost


def _other_cause(rule: Rule, everything: Sequence[Grown], table: Table) -> Iterator[Grown]:
    """Yield the rule, and the rule with one condition exchanged: a few failures do not show all their conditions, and
    often share some with the failures of the other cause."""
    single = [each for each in everything if len(each.atoms) == 1]
    yield table.grown(rule.atoms, 0.0, _held(rule, table))
    for left_out in rule.atoms:
        rest = tuple(atom for atom in rule.atoms if atom is not left_out)
        held = _held(Rule(rest), table)
        cost = sum(atom.cost for atom in rest)
        yield from (table.grown((*rest, *each.atoms), cost + each.cost, held & each.held) for each in single)


def _learned(rules: Sequence[Rule], table: Table) -> Learned:
    held = reduce(or_, (_held(rule, table) for rule in rules))
    return Learned(rules[0], (held & table.failures | ~held & table.passes).bit_count(), table.count, tuple(rules[1:]))


def _narrowed(found: Grown, own: Traits, table: Table) -> Rule:
    """Return a simpler or narrower rule for the same failures, which are now known to belong together."""
    together = table.among(found.held & table.failures)
    return max(grown_of(own, together), key=together.worth).rule


def _held(rule: Rule, table: Table) -> int:
    return reduce(and_, (table.columns.held(atom) for atom in rule.atoms), table.failures | table.passes)


def _rivals(best: Grown, everything: Sequence[Grown], table: Table) -> Iterator[Rule]:
    """Yield rivals: the rule with a condition less, the rule with a condition that no probe distinguishes exchanged,
    and other conjunctions that agree with as many probes."""
    most, agreeing = len(best.atoms) + 1, table.agreeing(best)
    alike = [each for each in everything if len(each.atoms) <= most and table.agreeing(each) >= agreeing]
    same = sorted(alike, key=lambda each: (len(each.atoms), each.cost))
    exchanged = sorted(_exchanged(best, everything, table), key=lambda each: each.cost)
    others = [each.rule for pair in zip_longest(exchanged, same) for each in pair if each is not None]
    rivals = dict.fromkeys([*_shorter(best.rule), *others])
    yield from [rule for rule in rivals if rule != best.rule][:_MOST_RIVALS]


def _rivals_of_each(rules: Sequence[Rule], probes: Sequence[Traits], table: Table) -> Iterator[Iterator[Rule]]:
    """Yield for each alternative its rivals, with a condition less or exchanged, while the other alternatives stay."""
    for rule in rules:
        held = _held(rule, table)
        atoms = atoms_of(probes[first(held & table.failures)], table.columns, table.failures, table.passes)
        singles = [table.grown((atom,), atom.cost, table.columns.held(atom)) for atom in atoms]
        exchanged = sorted(_exchanged(table.grown(rule.atoms, 0.0, held), singles, table), key=lambda each: each.cost)
        others = tuple(each for each in rules if each is not rule)
        yield (Rule(rival.atoms, others) for rival in (*_shorter(rule), *(each.rule for each in exchanged)))


def _shorter(rule: Rule) -> Iterator[Rule]:
    """Yield the rule without each of its conditions in turn."""
    yield from (Rule(tuple(atom for atom in rule.atoms if atom is not left_out)) for left_out in rule.atoms)


def _exchanged(best: Grown, everything: Sequence[Grown], table: Table) -> Iterator[Grown]:
    """Yield the rule with one condition exchanged, if it then holds for the same probes."""
    counting = table.failures | table.passes
    single = [each for each in everything if len(each.atoms) == 1]
    for left_out in best.atoms:
        rest = tuple(atom for atom in best.atoms if atom is not left_out)
        held = reduce(and_, (table.columns.held(atom) for atom in rest), counting)
        for each in single:
            if held & each.held == best.held & counting and each.atoms[0] not in best.atoms:
                yield table.grown((*rest, *each.atoms), best.cost - left_out.cost + each.cost, best.held)
