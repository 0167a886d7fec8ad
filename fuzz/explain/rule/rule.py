"""Rules: statements about a case's traits that a machine can check, and the words in which they are printed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from fuzz.core.base.dtypes import shortest
from fuzz.core.base.feature import Feature

Trait = float | int | str
Traits = Mapping[Feature, Trait]
"""The answers of one probe to features: numbers, residues and words."""

OF_NOTHING = -999
"""The power-of-two trait of a zero: less than that of any number."""
THERE = "there"
"""The answer for an optional tensor that a case has."""
VALID = "nothing"
"""The answer for input that no kernel promises to reject."""
_SOUND = 0.97
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


def word(what: object, yes: str = "yes", no: str = "no") -> str:
    """Return the trait that is one of two words."""
    return yes if what else no


@dataclass(frozen=True)
class Atom:
    """One condition on one trait."""

    trait: Feature
    relation: str
    """The relation: '=', '!=', '>=', '<=', '>', '<', 'in', or 'within', whose values are the ends of bands."""
    values: tuple[Trait, ...]
    cost: float

    def holds(self, traits: Traits) -> bool:
        """Return whether the condition holds; False too if the trait is unknown."""
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
    def size(self) -> int:
        """How much there is to read: the values or bands that are listed."""
        return len(self.values) // 2 if self.relation == "within" else len(self.values)

    def __str__(self) -> str:
        row, limit = self.trait.row, f"{self._relation} {self._listed()}"
        if self.trait.kind == "invalid":
            return self._invalid()
        if self.trait.kind in ("of two", "remainder of two"):
            return self._of_two(limit)
        holds = (self.relation == "=") == (self.values in (("yes",), ("differ",)))
        said = (row.yes if holds else row.no) or "{trait} {limit}"
        return self.trait.said(said, trait=self.trait.text, limit=self._power() if row.form == "power" else limit)

    @property
    def _relation(self) -> str:
        none = self.trait.row.form == "count" and (self.relation, *self.values) == ("<=", 0)
        if none or (self.relation, *self.values) == (">=", math.inf):
            return "="
        return "in" if self.relation == "within" else self.relation

    def _of_two(self, limit: str) -> str:
        """Return the words for the smaller or the larger number of a case and its twin: of one of the two, or of
        both."""
        which, number = self.trait.relation, self.trait.said(self.trait.row.yes)
        least = self.trait.row.form == "residue" and self.values == (0,)  # no residue is smaller
        if self.relation not in _COMPARED and not least:
            return f"the {which} {number} of the case and its twin {limit}"
        of_one = (which == "smaller") == (self.relation in ("<", "<=", "="))
        return f"{number} of {'the case or of' if of_one else 'both the case and'} its twin {limit}"

    def _invalid(self) -> str:
        """Return whether something is invalid, or what is invalid of which tensor, in words."""
        holds = self.relation in ("=", "in")
        if self.values == (VALID,):
            return "the input is valid" if holds else "the input is invalid"
        return f"the {' or the '.join(map(str, self.values))} is {'' if holds else 'not '}invalid"

    def _power(self) -> str:
        """Return the words for a limit on the largest power of two at or below a quantity."""
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
    """Return a number in words, with large powers of two as such."""
    if isinstance(value, float) and abs(value) >= _LARGE and math.frexp(value)[0] in (0.5, -0.5):
        return f"{'-' * (value < 0)}2^{math.frexp(value)[1] - 1}"
    return shortest(value)


_LARGE = 2.0**16


@dataclass(frozen=True)
class Rule:
    """A conjunction; without atoms it is true of everything."""

    atoms: tuple[Atom, ...] = ()
    bands: tuple[Rule, ...] = ()
    """The same condition with other numbers, for failures in separate ranges: one bug, in one bucket."""

    @property
    def size(self) -> int:
        """How much there is to read."""
        return sum(atom.size for atom in self.atoms)

    def holds(self, traits: Traits) -> bool:
        """Whether it says of what has these traits that it fails."""
        return all(atom.holds(traits) for atom in self.atoms) or any(band.holds(traits) for band in self.bands)

    def with_band(self, other: Rule) -> Rule:
        """Return the rule with the other one as a band."""
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
    """A rule, with the number of probes about which it is right."""

    rule: Rule
    agreeing: int
    probes: int
    others: tuple[Rule, ...] = ()
    """The rules of failures that have another cause, if there are several."""

    def holds(self, traits: Traits) -> bool:
        """Return whether one of the rules says that it fails."""
        return self.rule.holds(traits) or any(rule.holds(traits) for rule in self.others)

    @property
    def exceptions(self) -> int:
        return self.probes - self.agreeing

    @property
    def exact(self) -> bool:
        return not self.exceptions

    @property
    def sound(self) -> bool:
        """Whether hardly any probe disagrees: near a threshold rounding decides, and a few values hide anything."""
        return self.agreeing >= _SOUND * self.probes
