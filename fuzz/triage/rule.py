"""Rules: the simplest statement about a case's traits that is true of what fails and of nothing else.

Every atom that comes into question is true of all failures and as narrow as they allow: 'n >= 17' where 17 is the
smallest failing n. So a rule can only err by being true of something that passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

Trait = float | int | str
Traits = Mapping[str, Trait]
"""The traits of one probe: numbers, residues (named 'a mod b') and words."""

_MOST_ATOMS = 3
_SOUND = 0.97
_PATIENCE = 40_000
"""At most this many combinations of atoms are looked at, the simplest first."""


@dataclass(frozen=True)
class Atom:
    """One condition on one trait."""

    trait: str
    relation: str
    """The relation is '=', '!=', '>=', '<=' or 'in'."""
    values: tuple[Trait, ...]
    cost: float

    def holds(self, traits: Traits) -> bool:
        """False too where the trait is unknown."""
        value = traits.get(self.trait)
        if value is None:
            return False
        if self.relation in ("=", "in"):
            return value in self.values
        if self.relation == "!=":
            return value not in self.values
        limit = self.values[0]
        if isinstance(value, str) or isinstance(limit, str):
            return False
        return value >= limit if self.relation == ">=" else value <= limit

    def __str__(self) -> str:
        return self._in_words() or f"{self.trait} {self.relation} {self._listed()}"

    def _in_words(self) -> str | None:
        """As a sentence, where there is one for the trait."""
        holds = (self.relation == "=") == (self.values == ("yes",))
        for pattern, yes, no in _WORDS:
            if found := pattern.fullmatch(self.trait):
                return (yes if holds else no).format(*found.groups(), limit=f"{self.relation} {self._listed()}")
        for pattern, said in _POWERS:
            if found := pattern.fullmatch(self.trait):
                return said.format(*found.groups(), limit=f"{self.relation} 2^{self._listed()}")
        return None

    def _listed(self) -> str:
        shown = [value if isinstance(value, str) else f"{value:.9g}" for value in self.values]
        return shown[0] if len(shown) == 1 else f"{{{', '.join(shown)}}}"


_WORDS = tuple(
    (re.compile(pattern), yes, no)
    for pattern, yes, no in (
        (r"a NaN in (\w+)", "{0} has a NaN", "{0} has no NaN"),
        (r"an infinity in (\w+)", "{0} has an infinity", "{0} has no infinity"),
        (r"a zero row in (\w+)", "{0} has a row of zeros", "{0} has no row of zeros"),
        (
            r"an ordinary row in (\w+)", "{0} has a row that is finite and not all zero",
            "no row of {0} is finite and not all zero",
        ),
        (r"a subnormal in (\w+)", "{0} has a subnormal", "{0} has no subnormal"),
        ("a sum of squares beyond f32", "a sum of squares overflows f32", "no sum of squares overflows f32"),
        (r"(\w+) of ones", "{0} is 1 everywhere", "{0} is not 1 everywhere"),
        (r"(\w+) over (\w+) in part", "{0} overlaps {1} in part", "{0} does not overlap {1} in part"),
        (r"(\w+) is (\w+)", "{0} and {1} are one buffer", "{0} and {1} are two buffers"),
        (r"shift of (\w+) over (\w+)", *["{0} overlaps {1} in part, {limit} elements further on"] * 2),
    )
)  # fmt: skip
"""How traits are said where they hold, and where they do not."""
_POWERS = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (r"log2 of (\w+) in ulp of (the .*mean square)", "{0} {limit} ulp of {1}"),
        (
            r"log2 of the change of (\w+) in the dtype of (\w+) in ulp of (the .*mean square)",
            "rounding {0} to the dtype of {1} changes it by {limit} ulp of {2}",
        ),
        ("log2 of the mean square", "mean square {limit}"),
    )
)
"""How a trait that is a power of two is said."""


@dataclass(frozen=True)
class Rule:
    """A conjunction; without atoms it is true of everything."""

    atoms: tuple[Atom, ...] = ()

    def holds(self, traits: Traits) -> bool:
        return all(atom.holds(traits) for atom in self.atoms)

    def __str__(self) -> str:
        return " and ".join(str(atom) for atom in self.atoms)


@dataclass(frozen=True)
class Learned:
    """A rule, and for how many of the probes it says the truth."""

    rule: Rule
    agreeing: int
    probes: int
    others: tuple[Rule, ...] = ()
    """The rules of failures that have another cause, where there are several."""

    def holds(self, traits: Traits) -> bool:
        """True where one of the rules says that it fails."""
        return self.rule.holds(traits) or any(rule.holds(traits) for rule in self.others)

    @property
    def exact(self) -> bool:
        return self.agreeing == self.probes

    @property
    def sound(self) -> bool:
        """True where hardly any probe disagrees: near a threshold rounding decides, and a few values hide anything."""
        return self.agreeing >= _SOUND * self.probes


def learn(probes: Sequence[Traits], failed: Sequence[bool]) -> Learned:
    """The cheapest exact rule of at most three atoms; where there is none, the one that errs least."""
    failures = [traits for traits, bad in zip(probes, failed, strict=True) if bad]
    passes = [traits for traits, bad in zip(probes, failed, strict=True) if not bad]
    if not failures:
        raise ValueError("nothing failed, so there is nothing to state")
    everything = (1 << len(passes)) - 1
    excluding = _by_what_they_exclude(_atoms(failures, passes), passes)
    best, left = Rule(), len(passes)
    for atoms in _combined(list(excluding)):
        union = reduce(int.__or__, (excluding[atom] for atom in atoms), 0)
        missed = (everything & ~union).bit_count()
        if missed < left:
            best, left = Rule(atoms), missed
        if left == 0:
            break
    return Learned(best, len(probes) - left, len(probes))


def _combined(atoms: Sequence[Atom]) -> Iterator[tuple[Atom, ...]]:
    """Combinations, the cheaper ones first within each size; a size is finished before the next one."""
    looked_at = 0
    for size in range(_MOST_ATOMS + 1):
        for chosen in sorted(combinations(atoms, size), key=lambda chosen: sum(atom.cost for atom in chosen)):
            yield chosen
            looked_at += 1
            if looked_at > _PATIENCE:
                return


def _by_what_they_exclude(atoms: Iterable[Atom], passes: Sequence[Traits]) -> dict[Atom, int]:
    """Bits of the passes that each atom is false of; of two that exclude the same only the cheaper one."""
    kept: dict[int, Atom] = {}
    for atom in atoms:
        mask = sum(1 << place for place, traits in enumerate(passes) if not atom.holds(traits))
        if mask and (mask not in kept or atom.cost < kept[mask].cost):
            kept[mask] = atom
    cheapest = sorted(kept.items(), key=lambda item: (item[1].cost, -item[0].bit_count(), str(item[1])))
    return {atom: mask for mask, atom in cheapest[:_WIDEST]}


_WIDEST = 60
"""At most this many atoms are combined: all threes of them are still looked at in a fraction of a second."""


def _atoms(failures: Sequence[Traits], passes: Sequence[Traits]) -> Iterator[Atom]:
    """The atoms that are true of every failure."""
    for trait in failures[0]:
        bad = [traits.get(trait) for traits in failures]
        good = [traits.get(trait) for traits in passes]
        if None in bad:
            continue
        known = {value for value in bad if value is not None}
        others = {value for value in good if value is not None} - known
        if all(isinstance(value, str) for value in known):
            yield from _word_atoms(trait, {str(v) for v in known}, {str(v) for v in others})
        else:
            numbers = {value for value in known if not isinstance(value, str)}
            yield from _number_atoms(trait, numbers, {value for value in others if not isinstance(value, str)})


def _word_atoms(trait: str, bad: set[str], good: set[str]) -> Iterator[Atom]:
    if len(bad) == 1:
        yield Atom(trait, "=", tuple(bad), word_cost(trait))
    for word in sorted(good):
        yield Atom(trait, "!=", (word,), word_cost(trait) + 0.1)
    if 1 < len(bad) <= 4:
        yield Atom(trait, "in", tuple(sorted(bad)), 2.0)
    if 1 < len(good) <= 4:
        yield Atom(trait, "!=", tuple(sorted(good)), 2.0)


def _number_atoms(trait: str, bad: set[float | int], good: set[float | int]) -> Iterator[Atom]:
    modulus, base = " mod " in trait, number_cost(trait)
    low, high = min(bad), max(bad)
    if len(bad) == 1:
        yield Atom(trait, "=", (low,), base + 0.05)
    if modulus and 0 not in bad:
        yield Atom(trait, "!=", (0,), base)
    if any(value < low for value in good):
        yield Atom(trait, ">=", (low,), base + (0.4 if modulus else 0.0))
    if any(value > high for value in good):
        yield Atom(trait, "<=", (high,), base + (0.4 if modulus else 0.1))


def number_cost(trait: str) -> float:
    """A residue is a reason of its own, and rather of the smaller modulus; a ratio is a reason only where
    nothing plainer is."""
    if trait.startswith("log2 of "):
        return 1.3
    if " mod " not in trait:
        return 1.0
    modulus = trait.rpartition(" mod ")[2]
    return 1.2 + (int(modulus) if modulus.isdigit() else 8) / 1000


def word_cost(trait: str) -> float:
    """That a tensor is there says more than what it has where it is there."""
    return 1.05 if trait.startswith(("dtype of ", "layout of ", "address of ", "step of ", "strides of ")) else 1.0
