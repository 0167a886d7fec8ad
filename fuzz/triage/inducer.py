"""The inducer: of all statements about traits that are true of a given failure the shortest that agrees with the
probes, and what else would agree with them.

Rules are conjunctions of atoms, and alternatives of such where several things fail side by side. What a rule's rivals
say otherwise is what a further probe should be about: see `fuzz.triage.refutation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fuzz.triage.atoms import atoms_of
from fuzz.triage.rule import Atom, Learned, Rule, Traits
from fuzz.triage.values import THERE, about_constants, is_about_values
from oracles.lazy import lazy

_MOST_ATOMS = 4
_FIRST, _WIDTH = 80, 30
"""So many single atoms, and so many conjunctions of each further length, are made longer."""
_MOST_RULES = 3
_LEAST_FAILURES = 3
"""A further alternative must explain at least this many failures: with fewer, any coincidence would be one."""
_ATOM_WORTH, _RULE_WORTH = 0.0025, 0.01
"""The shares of all probes by which more must agree for another condition, and for another alternative, to be worth
reading."""
_MOST_RIVALS = 48
_PURE = 0.7
"""Of the probes that a loosened rule holds of, at least this share must fail."""


@dataclass(frozen=True)
class Induced:
    """A rule with what could as well be true."""

    learned: Learned
    rivals: tuple[Rule, ...]
    """Other rules of the given failure that err no more often, or hardly more, the likeliest first."""


def learn(probes: Sequence[Traits], failed: Sequence[bool], given: int | None = None) -> Learned:
    """The rule of a given failure, or of the first one. Raises ValueError where nothing failed."""
    return induce(probes, failed, given).learned


def induce(probes: Sequence[Traits], failed: Sequence[bool], given: int | None = None) -> Induced:
    """As `learn`, with the rule's rivals.

    One rule for all failures is preferred; where there is none, each alternative is one that no pass contradicts.
    """
    if not any(failed):
        raise ValueError("nothing failed, so there is nothing to state")
    own = probes[failed.index(True) if given is None else given]
    table = _Table(probes, failed)
    everything = list(_grown(own, table))
    best = max(everything, key=table.worth)
    single = Learned(best.rule, table.agreeing(best), len(probes))
    if single.exact:
        return Induced(single, tuple(_rivals(best, everything, table)))
    covering = _covering(everything, table)
    if covering is not None and _worth(covering) > _worth(single):
        return Induced(covering, ())
    return Induced(single, tuple(_rivals(best, everything, table)))


def loosened(rule: Rule, probes: Sequence[Traits], failed: Sequence[bool]) -> Rule:
    """The rule without the conditions that only say what hides the failure now and then, such as a huge eps.

    Where exactly they hide it depends on everything: to tell whether a failure is this one they are no use.
    """

    def pure(atoms: tuple[Atom, ...]) -> float:
        held = [bad for traits, bad in zip(probes, failed, strict=True) if Rule(atoms).holds(traits)]
        return sum(held) / max(len(held), 1)

    def without(left_out: Atom) -> tuple[Atom, ...]:
        """That an input has certain values says too that it is there."""
        name = about_constants(left_out.trait)
        there = [Atom(name, "=", (THERE,), 1.0)] if any(traits.get(name) == THERE for traits in probes) else []
        return (*there, *(atom for atom in atoms if atom is not left_out and atom not in there))

    atoms = rule.atoms
    while hiding := [atom for atom in atoms if is_about_values(atom.trait)]:
        best = max(map(without, hiding), key=pure)
        if pure(best) < _PURE:
            break
        atoms = best
    return Rule(atoms)


@dataclass(frozen=True)
class _Grown:
    """A conjunction with what it holds of, as bits."""

    atoms: tuple[Atom, ...]
    failures: int
    passes: int

    @lazy
    def cost(self) -> float:
        return sum(atom.cost for atom in self.atoms)

    @property
    def rule(self) -> Rule:
        """The plainer conditions come first."""
        return Rule(tuple(sorted(self.atoms, key=lambda atom: (atom.cost, atom.trait))))


class _Table:
    """Which probes failed, and which ones an atom holds of, as bits."""

    def __init__(self, probes: Sequence[Traits], failed: Sequence[bool]) -> None:
        self.bad = [traits for traits, fails in zip(probes, failed, strict=True) if fails]
        self.good = [traits for traits, fails in zip(probes, failed, strict=True) if not fails]
        self.all = _Grown((), (1 << len(self.bad)) - 1, (1 << len(self.good)) - 1)

    def agreeing(self, grown: _Grown) -> int:
        return grown.failures.bit_count() + len(self.good) - grown.passes.bit_count()

    def worth(self, grown: _Grown) -> tuple[float, float]:
        """What agrees less what must be read; of two alike the cheaper."""
        share = self.agreeing(grown) / (len(self.bad) + len(self.good))
        return share - _ATOM_WORTH * sum(atom.size for atom in grown.atoms), -grown.cost

    def atom(self, atom: Atom) -> _Grown:
        return _Grown((atom,), _bits(atom, self.bad), _bits(atom, self.good))


def _bits(atom: Atom, probes: Sequence[Traits]) -> int:
    return int("".join("1" if atom.holds(traits) else "0" for traits in probes) or "0", 2)


def _worth(learned: Learned) -> float:
    rules = (learned.rule, *learned.others)
    reading = _ATOM_WORTH * sum(rule.size for rule in rules) + _RULE_WORTH * (len(rules) - 1)
    return learned.agreeing / learned.probes - reading


def _grown(own: Traits, table: _Table) -> Iterator[_Grown]:
    """Conjunctions true of the given failure that are worth a look, the shorter ones first. None are longer than one
    that agrees with every probe."""
    single = [table.atom(atom) for atom in atoms_of(own, table.bad, table.good)]
    cheapest = _cheapest(grown for grown in single if grown.passes != table.all.passes)
    yield table.all
    yield from single
    level, beam = cheapest, _widest(cheapest, table, _FIRST)
    for _ in range(_MOST_ATOMS - 1):
        if any(not each.passes and each.failures == table.all.failures for each in level):
            return
        level = _longer(beam, cheapest)
        yield from level
        beam = _widest(level, table, _WIDTH)


def _longer(beam: Sequence[_Grown], atoms: Sequence[_Grown]) -> list[_Grown]:
    """Each conjunction with each atom that it gains by; of those that hold of the same probes the cheapest."""
    kept: dict[tuple[int, int], tuple[float, _Grown, _Grown]] = {}
    costs = [(atom, atom.failures, atom.passes, atom.cost) for atom in atoms]
    for each in beam:
        failures, passes, own = each.failures, each.passes, each.cost
        for atom, its_failures, its_passes, its_cost in costs:
            key = failures & its_failures, passes & its_passes
            if key[1] != passes and (key not in kept or own + its_cost < kept[key][0]):
                kept[key] = own + its_cost, each, atom
    return [_Grown((*one.atoms, *atom.atoms), *key) for key, (_, one, atom) in kept.items()]


def _cheapest(grown: Iterable[_Grown]) -> list[_Grown]:
    """Of those that hold of the same probes the cheapest."""
    kept: dict[tuple[int, int], _Grown] = {}
    for each in grown:
        key = each.failures, each.passes
        if key not in kept or each.cost < kept[key].cost:
            kept[key] = each
    return list(kept.values())


def _widest(grown: Sequence[_Grown], table: _Table, width: int) -> list[_Grown]:
    """Those that promise most: by what they separate, and by how pure they are."""
    failures, passes = max(len(table.bad), 1), max(len(table.good), 1)

    def separated(each: _Grown) -> float:
        return each.failures.bit_count() / failures - each.passes.bit_count() / passes - each.cost / 100

    def pure(each: _Grown) -> float:
        bad = each.failures.bit_count()
        return (bad + 1) / (bad + each.passes.bit_count() + 2) - each.cost / 100

    left = [each for each in grown if each.passes]  # what is pure already is made no better by being longer
    chosen = sorted(left, key=separated, reverse=True)[:width] + sorted(left, key=pure, reverse=True)[:width]
    return list(dict.fromkeys(chosen))


def _covering(everything: Sequence[_Grown], table: _Table) -> Learned | None:
    """Rules that no pass contradicts, first of the given failure, then of those that are left."""
    rules: list[Rule] = []
    left, grown = table, everything
    while left.bad and len(rules) < _MOST_RULES:
        pure = [each for each in grown if not each.passes]
        if not pure:
            break
        found = max(pure, key=lambda each: (each.failures.bit_count(), -each.cost))
        if rules and found.failures.bit_count() < _LEAST_FAILURES:
            break
        rules.append(_narrowed(found, left))
        rest = [traits for traits in left.bad if not rules[-1].holds(traits)]
        left = _Table([*rest, *table.good], [True] * len(rest) + [False] * len(table.good))
        grown = list(_grown(rest[0], left)) if rest else []
    if not rules:
        return None
    learned = Learned(rules[0], 0, 0, tuple(rules[1:]))
    agreeing = sum(learned.holds(traits) for traits in table.bad) + sum(not learned.holds(t) for t in table.good)
    return replace(learned, agreeing=agreeing, probes=len(table.bad) + len(table.good))


def _narrowed(found: _Grown, table: _Table) -> Rule:
    """The same failures may have a simpler or a narrower statement, now that it is known which belong together."""
    together = [traits for traits in table.bad if found.rule.holds(traits)]
    among = _Table([*together, *table.good], [True] * len(together) + [False] * len(table.good))
    exact = [each for each in _grown(together[0], among) if not each.passes and each.failures == among.all.failures]
    return min(exact, key=lambda each: (len(each.atoms), each.cost), default=found).rule


def _rivals(best: _Grown, everything: Sequence[_Grown], table: _Table) -> Iterator[Rule]:
    """Other conjunctions that agree with as many probes, and the rule with a condition less."""
    most, agreeing = len(best.atoms) + 1, table.agreeing(best)
    alike = [each for each in everything if len(each.atoms) <= most and table.agreeing(each) >= agreeing]
    shorter = [Rule(tuple(atom for atom in best.atoms if atom is not left_out)) for left_out in best.atoms]
    same = sorted(alike, key=lambda each: (len(each.atoms), each.cost))
    rivals = dict.fromkeys([*shorter, *(each.rule for each in same)])
    yield from [rule for rule in rivals if rule != best.rule][:_MOST_RIVALS]
