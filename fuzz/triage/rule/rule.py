"""Rules: statements about a case's traits that a machine can check, and the words in which they are printed."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

Trait = float | int | str
Traits = Mapping[str, Trait]
"""The traits of one probe: numbers, residues (named 'a mod b') and words."""

OF_NOTHING = -999
"""What the trait that is a power of two is of a zero: less than of any number."""
INVALID, VALID = "what is invalid", "nothing"
"""The trait of input that a kernel promises to reject, and what it is of all other."""
SMALLER, LARGER = "the smaller {} of the two", "the larger {} of the two"
"""The traits of a number that a case and its twin have each their own of."""
_SOUND = 0.97
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


@dataclass(frozen=True)
class Atom:
    """One condition on one trait."""

    trait: str
    relation: str
    """The relation is '=', '!=', '>=', '<=', '>', '<', 'in', or 'within', whose values are the ends of bands."""
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
        return self._in_words() or f"{self.trait} {self._relation} {self._listed()}"

    @property
    def _relation(self) -> str:
        is_extent = self.trait.isidentifier() and all(isinstance(value, int) for value in self.values)
        if (self.relation, *self.values) == (">=", math.inf) or (
            is_extent and self.relation == "<=" and self.values == (0,)
        ):
            return "="
        return "in" if self.relation == "within" else self.relation

    def _in_words(self) -> str | None:
        """As a sentence, where there is one for the trait."""
        if self.trait == INVALID:
            return self._invalid()
        holds = (self.relation == "=") == (self.values in (("yes",), ("differ",)))
        for pattern, yes, no in _WORDS:
            if found := pattern.fullmatch(self.trait):
                return (yes if holds else no).format(*found.groups(), limit=f"{self._relation} {self._listed()}")
        if found := _OF_TWO.fullmatch(self.trait):
            return self._of_two(*found.groups())
        for pattern, said in _POWERS:
            if found := pattern.fullmatch(self.trait):
                return said.format(*found.groups(), limit=self._power())
        return None

    def _of_two(self, which: str, number: str) -> str:
        """Return the words for the smaller or the larger number of a case and its twin: of one of the two, or of
        both."""
        limit = f"{self._relation} {self._listed()}"
        least = " mod " in number and self.values == (0,)  # no residue is smaller
        if self.relation not in _COMPARED and not least:
            return f"the {which} {number} of the case and its twin {limit}"
        of_one = (which == "smaller") == (self.relation in ("<", "<=", "="))
        return f"{number} of {'the case or of' if of_one else 'both the case and'} its twin {limit}"

    def _invalid(self) -> str:
        """Whether anything is, or what of which tensor."""
        holds = self.relation in ("=", "in")
        if self.values == (VALID,):
            return "the input is valid" if holds else "the input is invalid"
        return f"the {' or the '.join(map(str, self.values))} is {'' if holds else 'not '}invalid"

    def _power(self) -> str:
        """As of a power of two that is not larger than what it stands for."""
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
    """Large powers of two as such."""
    if isinstance(value, float) and abs(value) >= _LARGE and math.frexp(value)[0] in (0.5, -0.5):
        return f"{'-' * (value < 0)}2^{math.frexp(value)[1] - 1}"
    return f"{value:.9g}"


_LARGE = 2.0**16
_OF_TWO = re.compile("the (smaller|larger) (.+) of the two")
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
        (
            r"an ordinary value in (\w+)", "{0} has a value that is finite and not 0",
            "no value of {0} is finite and not 0",
        ),
        (
            r"each row of (\w+) at a multiple of (\d+)",
            "each row of {0} is at a multiple of {1} bytes", "a row of {0} is not at a multiple of {1} bytes",
        ),
        (r"(.+) and that of the twin", "{0} is not the same in the twin", "{0} is the same in the twin"),
        (r"a stride of 0 in (\w+)", "{0} has a stride of 0", "{0} has no stride of 0"),
        (r"a subnormal in (\w+)", "{0} has a subnormal", "{0} has no subnormal"),
        (r"a zero in (\w+)", "{0} has a zero", "{0} has no zero"),
        (r"a negative zero in (\w+)", "{0} has a zero of negative sign", "{0} has no zero of negative sign"),
        (
            r"the change of (\w+) in the dtype of (\w+) and the twin's",
            "rounding {0} to the dtype of {1} changes it by another factor than the twin's",
            "rounding {0} to the dtype of {1} changes it by the same factor as the twin's",
        ),
        ("a sum of squares beyond f32", "a sum of squares overflows f32", "no sum of squares overflows f32"),
        (r"a row of equal elements in (\w+)", "{0} has a row of equal elements", "no row of {0} has equal elements"),
        (r"the (first|last) place in (\w+)", "{1} has the {0} place", "{1} has not the {0} place"),
        (r"an? (un)?set flag in (\w+)", "{1} has a flag that is {0}set", "{1} has no flag that is {0}set"),
        (r"(\w+) is one (place|flag)", "{0} is the same {1} everywhere", "{0} is not the same {1} everywhere"),
        (r"(\w+) > extent 0 of the \w+", "{0} > the first extent", "{0} = the first extent"),
        (r"(\w+) is a power of two", "{0} is a power of two", "{0} is not a power of two"),
        (r"(\w+) = (\w+)", "{0} = {1}", "{0} != {1}"),
        (r"(\w+) > the (.+)", "{0} > the {1}", "{0} <= the {1}"),
        (r"(\w+) < the (.+)", "{0} < the {1}", "{0} >= the {1}"),
        (r"(\w+) > (\w+)", "{0} > {1}", "{0} <= {1}"),
        (r"(\w+) < (\w+)", "{0} < {1}", "{0} >= {1}"),
        (
            r"minus infinities at the (start|end) of a row of (\w+)",
            *["{1} has a row with {limit} minus infinities at its {0}"] * 2,
        ),
        (
            r"elements after the last NaN of a row of (\w+)",
            *["{0} has a NaN with {limit} elements after it"] * 2,
        ),
        (r"(extent \d+ of the \w+|extent of the last axis) = (\w+)", "{0} = {1}", "{0} != {1}"),
        (r"(\w+) of ones", "{0} is 1 everywhere", "{0} is not 1 everywhere"),
        ("axis is the first", "axis is the first", "axis is not the first"),
        (
            r"span of an output over that of (\w+) in part",
            "the span of an output overlaps that of {0} in part", "the span of no output overlaps that of {0} in part",
        ),
        (r"(\w+) over (\w+) in part", "{0} overlaps {1} in part", "{0} does not overlap {1} in part"),
        (
            r"(\w+) over an? (earlier|later) (element|row) of (\w+)",
            "{0} overlaps {3} in part, over {2}s that come {1}", "{0} does not overlap {3} over {2}s that come {1}",
        ),
        (r"(\w+) is (\w+)", "{0} and {1} are one buffer", "{0} and {1} are two buffers"),
        (r"shift of (\w+) over (\w+)", *["{0} overlaps {1} in part, {limit} elements further on"] * 2),
    )
)  # fmt: skip
"""How traits are said where they hold, and where they do not."""
_POWERS = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (r"log2 of (\w+) in ulp of (the .+)", "{0} {limit} ulp of {1}"),
        (
            r"log2 of the change of (\w+) in the dtype of (\w+) in ulp of (the .+)",
            "rounding {0} to the dtype of {1} changes it by {limit} ulp of {2}",
        ),
        (r"log2 of (\w+) over (the (?:smallest|largest) .+)", "{0} {limit} times {1}"),
        (r"log2 of the ((?!change of )[^>]+)", "{0} {limit}"),
    )
)
"""How a trait that is a power of two is said."""


@dataclass(frozen=True)
class Rule:
    """A conjunction; without atoms it is true of everything."""

    atoms: tuple[Atom, ...] = ()
    bands: tuple[Rule, ...] = ()
    """The same condition with other numbers, where what fails lies apart: one bug, in whose bucket both belong."""

    @property
    def size(self) -> int:
        """How much there is to read."""
        return sum(atom.size for atom in self.atoms)

    def holds(self, traits: Traits) -> bool:
        """Whether it says of what has these traits that it fails."""
        return all(atom.holds(traits) for atom in self.atoms) or any(band.holds(traits) for band in self.bands)

    def with_band(self, other: Rule) -> Rule:
        """The rule, which holds of what the other one holds of too."""
        known = {self.alone, *self.bands}
        return replace(self, bands=(*self.bands, *(each for each in (other.alone, *other.bands) if each not in known)))

    @property
    def alone(self) -> Rule:
        """Without its bands."""
        return Rule(self.atoms)

    def __str__(self) -> str:
        return "; or ".join(" and ".join(map(str, each.atoms)) for each in (self, *self.bands))


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
    def exceptions(self) -> int:
        return self.probes - self.agreeing

    @property
    def exact(self) -> bool:
        return not self.exceptions

    @property
    def sound(self) -> bool:
        """True where hardly any probe disagrees: near a threshold rounding decides, and a few values hide anything."""
        return self.agreeing >= _SOUND * self.probes
