"""Rules: conditions on the traits of a case that a machine can check, and the words in which they are printed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from fuzz.core.base.dtypes import shortest
from fuzz.core.base.feature import Feature

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
