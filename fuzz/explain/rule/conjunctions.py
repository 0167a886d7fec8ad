"""Conjunctions: atoms that hold for one failure, joined so that they separate failing probes from passing ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest

from fuzz.explain.rule.atoms import Columns, atoms_of
from fuzz.explain.rule.rule import Atom, Rule, Traits
from oracles.lazy import lazy

_MOST_ATOMS = 4
_FIRST, _WIDTH = 80, 30
"""The number of single atoms, and of conjunctions of each further length, to which more atoms are joined."""
ATOM_WORTH = 0.0025
"""The share of all probes that a further condition must classify better to be worth reading."""


@dataclass(eq=False, slots=True)  # not frozen: a rule needs a hundred thousand, and freezing would make each slower
class Grown:
    """A conjunction, the mask of the probes for which it holds, and how many of them failed and passed."""

    atoms: tuple[Atom, ...]
    cost: float
    held: int
    failures: int
    passes: int
    size: int
    """The number of values or bands that a reader must read."""

    @property
    def rule(self) -> Rule:
        """The conjunction as a rule, with the plainer conditions first."""
        return Rule(tuple(sorted(self.atoms, key=lambda atom: (atom.cost, atom.trait.text))))


@dataclass(frozen=True)
class Table:
    """The masks of the probes that failed and that passed; probes in neither do not count."""

    columns: Columns
    failures: int
    passes: int

    @classmethod
    def of(cls, probes: Sequence[Traits], failed: Sequence[bool]) -> Table:
        failures = sum(1 << place for place, fails in enumerate(failed) if fails)
        return cls(Columns(probes), failures, (1 << len(probes)) - 1 ^ failures)

    @lazy
    def count(self) -> int:
        return (self.failures | self.passes).bit_count()

    @lazy
    def passing(self) -> int:
        return self.passes.bit_count()

    def among(self, failures: int) -> Table:
        """Return the table with only these failures, given as a mask."""
        return replace(self, failures=failures)

    def grown(self, atoms: tuple[Atom, ...], cost: float, held: int) -> Grown:
        failures, passes = (held & self.failures).bit_count(), (held & self.passes).bit_count()
        return Grown(atoms, cost, held, failures, passes, sum(atom.size for atom in atoms))

    def agreeing(self, grown: Grown) -> int:
        return grown.failures + self.passing - grown.passes

    def worth(self, grown: Grown) -> tuple[float, float]:
        """Return a sort key: the share of agreeing probes minus the cost of reading; of equals the cheaper is
        better."""
        return self.agreeing(grown) / self.count - ATOM_WORTH * grown.size, -grown.cost


def grown_of(own: Traits, table: Table) -> Iterator[Grown]:
    """Yield promising conjunctions that hold for the given failure, the shorter ones first. Once one agrees with every
    probe, no longer ones are made, unless it lists bands: a repeating pattern may have a better condition."""
    atoms = atoms_of(own, table.columns, table.failures, table.passes)
    single = [table.grown((atom,), atom.cost, table.columns.held(atom)) for atom in atoms]
    everything = table.failures | table.passes
    cheapest = _cheapest(grown for grown in single if table.passes & ~grown.held)
    yield table.grown((), 0.0, everything)
    yield from single
    level, beam = cheapest, _widest(cheapest, table, _FIRST)
    for _ in range(_MOST_ATOMS - 1):
        if any(not (each.passes or table.failures & ~each.held) and each.size == len(each.atoms) for each in level):
            return
        level = _longer(beam, cheapest, table)
        yield from level
        beam = _widest(level, table, _WIDTH)


def _longer(beam: Sequence[Grown], atoms: Sequence[Grown], table: Table) -> list[Grown]:
    """Return each conjunction joined with each atom that excludes further passing probes; of those with the same
    probes, only the cheapest."""
    kept: dict[int, tuple[float, Grown, Grown]] = {}
    further = [(atom, atom.held, atom.cost) for atom in atoms]
    counting = table.failures | table.passes
    for each in beam:
        own, cost, excluded = each.held & counting, each.cost, each.held & table.passes
        for atom, its_own, its_cost in further:
            if excluded & ~its_own:
                key = own & its_own
                if key not in kept or cost + its_cost < kept[key][0]:
                    kept[key] = cost + its_cost, each, atom
    grown, failures, passes = list[Grown](), table.failures, table.passes
    for held, (cost, one, atom) in kept.items():
        counted = (held & failures).bit_count(), (held & passes).bit_count()
        grown.append(Grown((*one.atoms, *atom.atoms), cost, held, *counted, one.size + atom.size))
    return grown


def _cheapest(grown: Iterable[Grown]) -> list[Grown]:
    """Return, of conjunctions that hold for the same probes, only the cheapest."""
    kept: dict[int, Grown] = {}
    for each in grown:
        if each.held not in kept or each.cost < kept[each.held].cost:
            kept[each.held] = each
    return list(kept.values())


def _widest(grown: Sequence[Grown], table: Table, width: int) -> list[Grown]:
    """Return the most promising conjunctions: those that separate most, or have the largest share of failures."""
    failures, passes = max(table.failures.bit_count(), 1), max(table.passes.bit_count(), 1)

    def separated(each: Grown) -> float:
        return each.failures / failures - each.passes / passes - each.cost / 100

    def pure(each: Grown) -> float:
        return (each.failures + 1) / (each.failures + each.passes + 2) - each.cost / 100

    left = [each for each in grown if each.passes]  # without passing probes, another atom gains nothing
    return list(dict.fromkeys([*nlargest(width, left, separated), *nlargest(width, left, pure)]))


def first(bits: int) -> int:
    """Return the index of the lowest bit of a mask."""
    return (bits & -bits).bit_length() - 1
