"""Rules: conditions on the traits of a case that a machine can check, and the words in which they are printed. Atoms
are conditions on one trait that hold for a given failure and separate some probes from others; conjunctions are atoms
that are joined so that they separate failing probes from passing ones."""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from heapq import nlargest
from itertools import accumulate, pairwise
from math import inf
from operator import or_

from fuzz.core.base.dtypes import shortest
from fuzz.core.base.feature import Feature
from oracles.lazy import lazy

Trait = float | int | str
Traits = Mapping[Feature, Trait]
"""The traits of one probe, by feature: numbers, residues and words."""

OF_NOTHING = -999
"""The value of a power-of-two trait for zero: below that of any number."""
THERE = "there"
"""The trait of an optional tensor that a case has."""
VALID = "nothing"
"""The trait of input that no kernel promises to reject."""
_SOUND = 0.97
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


def word(what: object, yes: str = "yes", no: str = "no") -> str:
    """Return the trait `yes` if `what` is true, else `no`."""
    return yes if what else no


@dataclass(frozen=True)
class Atom:
    """One condition on one trait."""

    trait: Feature
    relation: str
    """The relation: '=', '!=', '>=', '<=', '>', '<', 'in', or 'within', whose values are the ends of ranges."""
    values: tuple[Trait, ...]
    cost: float

    def holds(self, traits: Traits) -> bool:
        """Return whether the condition holds; it does not if the trait is unknown."""
        value = traits.get(self.trait)
        if value is None:
            return False
        if self.relation in ("=", "in"):
            return value in self.values
        if self.relation == "!=":
            return value not in self.values
        limits = [limit for limit in self.values if not isinstance(limit, str)]
        if isinstance(value, str) or not limits:
            return False
        if self.relation == "within":
            return any(low <= value <= high for low, high in zip(limits[::2], limits[1::2], strict=True))
        return _COMPARED[self.relation](value, limits[0])

    @property
    def hides(self) -> bool:
        """Whether the condition is about what hides a failure more often than it causes one. That values have a pattern
        is rarer than most failures, and so a cause."""
        return self.trait.hides and not ("pattern" in self.trait.kind and (self.relation, *self.values) == ("=", "yes"))

    @property
    def size(self) -> int:
        """The number of values or bands that a reader must read."""
        return len(self.values) // 2 if self.relation == "within" else len(self.values)

    def __str__(self) -> str:
        topic, limit = self.trait.topic, f"{self._relation} {self._listed()}"
        if self.trait.kind == "invalid":
            return self._invalid()
        if self.trait.kind in ("of two", "remainder of two"):
            return self._of_two(limit)
        holds = (self.relation == "=") == (self.values in (("yes",), ("differ",)))
        said = (topic.yes if holds else topic.no) or "{trait} {limit}"
        return self.trait.said(said, trait=self.trait.text, limit=self._power() if topic.form == "power" else limit)

    @property
    def _relation(self) -> str:
        none = self.trait.topic.form == "count" and (self.relation, *self.values) == ("<=", 0)
        if none or (self.relation, *self.values) == (">=", math.inf):
            return "="
        return "in" if self.relation == "within" else self.relation

    def _of_two(self, limit: str) -> str:
        """Return the words for a limit on the smaller or larger number of a case and its twin: it holds for one of the
        two, or for both."""
        which, number = self.trait.relation, self.trait.said(self.trait.topic.yes)
        least = self.trait.topic.form == "residue" and self.values == (0,)  # no residue is smaller
        if self.relation not in _COMPARED and not least:
            return f"the {which} {number} of the case and its twin {limit}"
        of_one = (which == "smaller") == (self.relation in ("<", "<=", "="))
        return f"{number} of {'the case or of' if of_one else 'both the case and'} its twin {limit}"

    def _invalid(self) -> str:
        """Return the words for which tensor or property of the input is invalid, or that all is valid."""
        holds = self.relation in ("=", "in")
        if self.values == (VALID,):
            return "the input is valid" if holds else "the input is invalid"
        return f"the {' or the '.join(map(str, self.values))} is {'' if holds else 'not '}invalid"

    def _power(self) -> str:
        """Return the words for a limit on the exponent of the largest power of two that is not above a quantity."""
        if (self.relation, *self.values) == ("<=", OF_NOTHING):
            return "= 0"
        if (self.relation, *self.values) == (">=", OF_NOTHING + 1):
            return "> 0"
        if self.relation == "<=" and not isinstance(self.values[0], str):
            return f"< 2^{self.values[0] + 1:.9g}"
        return f"{self._relation} 2^{self._listed()}"

    def _listed(self) -> str:
        shown = [value if isinstance(value, str) else _number(value) for value in self.values]
        if self.relation == "within":
            return " or ".join(a if a == b else f"{a}..{b}" for a, b in zip(shown[::2], shown[1::2], strict=True))
        return shown[0] if len(shown) == 1 else f"{{{', '.join(shown)}}}"


def _number(value: float) -> str:
    """Return a number in words; a large power of two is written as one."""
    if isinstance(value, float) and abs(value) >= _LARGE and math.frexp(value)[0] in (0.5, -0.5):
        return f"{'-' * (value < 0)}2^{math.frexp(value)[1] - 1}"
    return shortest(value)


_LARGE = 2.0**16


@dataclass(frozen=True)
class Rule:
    """A conjunction of atoms, with bands; without atoms it holds for everything."""

    atoms: tuple[Atom, ...] = ()
    bands: tuple[Rule, ...] = ()
    """The same condition with other numbers, for failures in separate ranges that are one bug."""

    @property
    def size(self) -> int:
        """The number of values or bands that a reader must read."""
        return sum(atom.size for atom in self.atoms)

    def holds(self, traits: Traits) -> bool:
        """Whether the rule says that a case with these traits fails."""
        return all(atom.holds(traits) for atom in self.atoms) or any(band.holds(traits) for band in self.bands)

    def with_band(self, other: Rule) -> Rule:
        """Return the rule with another one added as a band."""
        known = {self.alone, *self.bands}
        return replace(self, bands=(*self.bands, *(each for each in (other.alone, *other.bands) if each not in known)))

    @property
    def alone(self) -> Rule:
        """The rule without its bands."""
        return Rule(self.atoms)

    def __str__(self) -> str:
        return "; or ".join(" and ".join(map(str, each.atoms)) for each in (self, *self.bands))


@dataclass(frozen=True)
class Learned:
    """A rule, and the number of probes that agree with it."""

    rule: Rule
    agreeing: int
    probes: int
    others: tuple[Rule, ...] = ()
    """The rules of failures with other causes, if there are several causes."""

    def holds(self, traits: Traits) -> bool:
        """Return whether one of the rules says that a case with these traits fails."""
        return self.rule.holds(traits) or any(rule.holds(traits) for rule in self.others)

    @property
    def exceptions(self) -> int:
        return self.probes - self.agreeing

    @property
    def exact(self) -> bool:
        return not self.exceptions

    @property
    def sound(self) -> bool:
        """Whether hardly any probe disagrees: near a threshold rounding decides, and a few values hide any failure."""
        return self.agreeing >= _SOUND * self.probes


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
        elif trait.topic.form == "residue":
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
    if trait.topic.form != "size" and (trait.topic.form != "quantile" or value in _TOLD):
        yield Atom(trait, "=", (value,), cost + 0.3)
    if value != 0 and 0 in good:
        yield Atom(trait, "!=", (0,), cost + 0.15)
    lower, upper = _limits(value, bad, good)
    yield from (Atom(trait, ">=", (limit,), cost + 0.1) for limit in lower)
    yield from (Atom(trait, "<=", (limit,), cost + 0.2) for limit in upper)
    apart = trait.topic.form not in ("power", "quantile", "position", "size")
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
